//! `repeat IN OUT TIMES`: a perf.data with the samples of another several times over, each round
//! later than the one before, for inputs larger than anybody wants to record. Prints how many
//! samples it has.
//!
//! Only files are read that perf itself wrote on this kind of machine: 64 bits, little-endian.

#![allow(clippy::print_stdout, reason = "the count is what it is asked for")]

use std::fs::File;
use std::io::{BufWriter, Write};

type Failure = Box<dyn std::error::Error>;

const RECORD_SAMPLE: u32 = 9;
/// Bits of `sample_type`, and the fields of eight bytes that come before the time of a sample.
const TIME_BIT: u64 = 1 << 2;
const BITS_BEFORE_TIME: [u64; 3] = [1 << 16, 1 << 0, 1 << 1];
/// How long a pause there is between two rounds.
const PAUSE_NS: u64 = 1_000_000;

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [input, output, times] = arguments.as_slice() else {
        return Err("usage: repeat IN OUT TIMES".into());
    };
    let file = std::fs::read(input)?;
    let output = BufWriter::new(File::create(output)?);
    println!("{}", repeat(&file, output, times.parse()?)?);
    Ok(())
}

fn repeat(file: &[u8], mut output: impl Write, times: u64) -> Result<u64, Failure> {
    if !file.starts_with(b"PERFILE2") {
        return Err("this is no perf.data".into());
    }
    let (attributes, data_start, data_size) =
        (number(file, 24)?, number(file, 40)?, number(file, 48)?);
    let data_end = data_start as usize + data_size as usize;
    let data = file
        .get(data_start as usize..data_end)
        .ok_or("the file is cut off")?;
    let time_at = time_position(number(file, attributes as usize + 24)?)?;
    let (mut samples, places) = samples_of(data, time_at)?;
    let times_of: Vec<u64> = places
        .iter()
        .map(|at| number(&samples, *at))
        .collect::<Result<_, _>>()?;
    let first = times_of.iter().min().ok_or("there are no samples")?;
    let length = times_of.iter().max().unwrap_or(first) - first + PAUSE_NS;
    let added = samples.len() as u64 * (times - 1);
    output.write_all(&file[..48])?;
    output.write_all(&(data_size + added).to_le_bytes())?;
    output.write_all(&file[56..data_end])?;
    for round in 1..times {
        for (at, time) in places.iter().zip(&times_of) {
            samples[*at..at + 8].copy_from_slice(&(time + round * length).to_le_bytes());
        }
        output.write_all(&samples)?;
    }
    output.write_all(&moved_features(file, data_end, added)?)?;
    output.flush()?;
    Ok(places.len() as u64 * times)
}

fn number(bytes: &[u8], at: usize) -> Result<u64, Failure> {
    let bytes = bytes.get(at..at + 8).ok_or("the file is cut off")?;
    Ok(u64::from_le_bytes(bytes.try_into()?))
}

/// Where the time is in a sample.
fn time_position(sample_type: u64) -> Result<usize, Failure> {
    if sample_type & TIME_BIT == 0 {
        return Err("samples have no times".into());
    }
    let before = BITS_BEFORE_TIME
        .iter()
        .filter(|bit| sample_type & **bit != 0);
    Ok(8 + 8 * before.count())
}

/// The samples of a data section one after the other, and where the time of each is.
fn samples_of(data: &[u8], time_at: usize) -> Result<(Vec<u8>, Vec<usize>), Failure> {
    let (mut samples, mut places) = (Vec::new(), Vec::new());
    let mut rest = data;
    while !rest.is_empty() {
        let head = number(rest, 0)?;
        let size = (head >> 48) as usize;
        let record = rest
            .get(..size)
            .filter(|_| size >= 8)
            .ok_or("a record is damaged")?;
        if head as u32 == RECORD_SAMPLE {
            places.push(samples.len() + time_at);
            samples.extend_from_slice(record);
        }
        rest = &rest[size..];
    }
    Ok((samples, places))
}

/// What comes after the data: a table of places and sizes, and what is there.
fn moved_features(file: &[u8], start: usize, by: u64) -> Result<Vec<u8>, Failure> {
    let flags = file.get(72..104).ok_or("the file is cut off")?;
    let features: u32 = flags.iter().map(|byte| byte.count_ones()).sum();
    let mut moved = file[start..].to_vec();
    for feature in 0..features as usize {
        let place = number(&moved, feature * 16)? + by;
        moved[feature * 16..][..8].copy_from_slice(&place.to_le_bytes());
    }
    Ok(moved)
}
