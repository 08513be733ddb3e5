//! Names of stacks: each stack and frame once, by the hash of its content, whichever server stores it.
//!
//! A stack is known to windows by the first eight bytes of its hash. One that has these and is another is refused, so that none
//! passes for another. Frames go in before the stacks that have them, stacks before the windows that count them.

use nodespy_model::{Category, FastMap, FastSet};

use super::client::Connection;
use super::rows::{RowReader, Rows};
use crate::error::StoreError;
use crate::selection::{NameBudget, StackId};
use crate::symbols::{
    StackHash, StoredFrame, StoredFunction, SymbolBuilder, SymbolHasher, Symbols, category_number,
};
use crate::window::UnixSeconds;

/// How many ids a statement names: it has to be shorter than 256 KiB.
pub(super) const IDS_AT_ONCE: usize = 8192;
/// How many names are remembered.
const MAX_REMEMBERED: usize = 1 << 20;
/// For how long: what others delete meanwhile was not counted for months.
const REMEMBERED_SECONDS: u64 = 24 * 3600;
/// Names that are counted are renewed so often.
const RENEWED_SECONDS: u64 = 30 * 24 * 3600;
/// The name of a stack whose name is not there (yet): on a replica it may come after the windows.
const MISSING: &str = "[a stack whose name is missing in the store]";

/// The id of a stack.
pub(super) fn id_of(hash: StackHash) -> u64 {
    let [a, b, c, d, e, f, g, h, ..] = hash.0;
    u64::from_le_bytes([a, b, c, d, e, f, g, h])
}

/// Numbers as the right side of `IN`.
pub(super) fn list<T: ToString>(numbers: impl IntoIterator<Item = T>) -> String {
    let numbers: Vec<String> = numbers.into_iter().map(|it| it.to_string()).collect();
    format!("({})", numbers.join(","))
}

/// Names that are known to be stored.
#[derive(Debug, Default)]
pub(super) struct KnownNames {
    since: UnixSeconds,
    stacks: FastSet<StackHash>,
    frames: FastSet<[u8; 16]>,
}

impl KnownNames {
    /// Which of these stacks are not stored. Those that were not counted for long are renewed: whoever asks is about to.
    pub(super) fn unknown(
        &mut self,
        connection: &Connection,
        stacks: &[StackHash],
        now: UnixSeconds,
    ) -> Result<Vec<StackHash>, StoreError> {
        let is_old = now >= self.since + REMEMBERED_SECONDS;
        if is_old || self.stacks.len().max(self.frames.len()) > MAX_REMEMBERED {
            *self = Self {
                since: now,
                ..Self::default()
            };
        }
        let asked = stacks.iter().filter(|hash| !self.stacks.contains(*hash));
        let asked: Vec<StackHash> = asked.copied().collect();
        let stored = stored(connection, &asked)?;
        let old = stored
            .iter()
            .filter(|(_, (_, seen))| seen + RENEWED_SECONDS < now);
        let old: Vec<u64> = old.map(|(id, _)| *id).collect();
        renew(connection, &old)?;
        let mut unknown = Vec::new();
        for hash in asked {
            match stored.get(&id_of(hash)) {
                None => unknown.push(hash),
                Some((known, _)) if *known == hash.0 => {
                    self.stacks.insert(hash);
                }
                Some(_) => {
                    return Err(StoreError::Refused("a stack has the id of another one"));
                }
            }
        }
        Ok(unknown)
    }

    /// Stores stacks that are not there, by their positions, with the frames they have.
    pub(super) fn store(
        &mut self,
        connection: &Connection,
        symbols: &Symbols,
        hasher: &SymbolHasher,
        stacks: &[(StackHash, usize)],
        now: UnixSeconds,
    ) -> Result<(), StoreError> {
        let now = now as u32;
        let mut frame_rows = Rows::default();
        let mut stack_rows = Rows::default();
        let mut new_frames = FastSet::default();
        for (hash, position) in stacks {
            let path = &symbols.stacks[*position];
            stack_rows
                .u64(id_of(*hash))
                .bytes(&hash.0)
                .length(path.len());
            for frame in path {
                let hash = hasher.frames[*frame as usize];
                stack_rows.bytes(&hash);
                if !self.frames.contains(&hash) && new_frames.insert(hash) {
                    put_frame(&mut frame_rows, hash, symbols, *frame, now);
                }
            }
            stack_rows.u32(now);
        }
        connection.insert(FRAME_COLUMNS, &frame_rows)?;
        self.frames.extend(new_frames);
        connection.insert("stacks (id, hash, frames, seen)", &stack_rows)?;
        self.stacks.extend(stacks.iter().map(|(hash, _)| *hash));
        Ok(())
    }
}

const FRAME_COLUMNS: &str = "frames (hash, name, file, function_line, function_column, category, line, column, flags, seen)";

fn put_frame(rows: &mut Rows, hash: [u8; 16], symbols: &Symbols, frame: u32, now: u32) {
    let frame = &symbols.frames[frame as usize];
    let function = &symbols.functions[frame.function as usize];
    rows.bytes(&hash).text(&function.name).text(&function.file);
    rows.u32(function.line).u32(function.column);
    rows.u8(category_number(function.category));
    rows.u32(frame.line).u32(frame.column).u8(frame.flags());
    rows.u32(now);
}

/// Hash and last renewal of those of the stacks that are stored, by id.
fn stored(
    connection: &Connection,
    stacks: &[StackHash],
) -> Result<FastMap<u64, ([u8; 16], UnixSeconds)>, StoreError> {
    let mut stored = FastMap::default();
    for stacks in stacks.chunks(IDS_AT_ONCE) {
        let ids = list(stacks.iter().map(|hash| id_of(*hash)));
        let sql =
            format!("SELECT id, any(hash), max(seen) FROM stacks WHERE id IN {ids} GROUP BY id");
        let reply = connection.ask(sql)?;
        let mut rows = RowReader::new(&reply);
        while rows.has_more() {
            let id = rows.u64()?;
            stored.insert(id, (rows.hash()?, u64::from(rows.u32()?)));
        }
    }
    Ok(stored)
}

/// Writes names again with today's date.
fn renew(connection: &Connection, stacks: &[u64]) -> Result<(), StoreError> {
    for ids in stacks.chunks(IDS_AT_ONCE) {
        let ids = list(ids);
        connection.ask(format!(
            "INSERT INTO {FRAME_COLUMNS} SELECT hash, name, file, function_line, function_column, category, line, column, flags, now()
            FROM frames FINAL WHERE hash IN (SELECT arrayJoin(frames) FROM stacks WHERE id IN {ids})"
        ))?;
        connection.ask(format!(
            "INSERT INTO stacks SELECT id, hash, frames, now() FROM stacks FINAL WHERE id IN {ids}"
        ))?;
    }
    Ok(())
}

/// The names of stacks.
pub(super) fn names(
    connection: &Connection,
    stacks: &[StackId],
    budget: &mut NameBudget,
) -> Result<Symbols, StoreError> {
    let mut names = Names::default();
    let mut paths: FastMap<u64, Vec<u32>> = FastMap::default();
    for ids in stacks.chunks(IDS_AT_ONCE) {
        let ids = list(ids.iter().map(|stack| stack.0));
        let of_ids = format!("FROM stacks WHERE id IN {ids}");
        let sql = format!(
            "SELECT hash, name, file, function_line, function_column, category, line, column, flags
            FROM frames WHERE hash IN (SELECT arrayJoin(frames) {of_ids}) LIMIT 1 BY hash"
        );
        names.take_frames(&connection.ask(sql)?, budget)?;
        let reply = connection.ask(format!("SELECT id, frames {of_ids} LIMIT 1 BY id"))?;
        let mut rows = RowReader::new(&reply);
        while rows.has_more() {
            let id = rows.u64()?;
            let length = rows.length()?;
            budget.take_stack(length)?;
            let mut path = Vec::new();
            for _ in 0..length {
                path.push(names.frame(rows.hash()?));
            }
            paths.insert(id, path);
        }
    }
    for stack in stacks {
        let path = match paths.get(&stack.0) {
            Some(path) => path.clone(),
            None => vec![names.missing()],
        };
        names.builder.symbols.stacks.push(path);
    }
    Ok(names.builder.symbols)
}

/// Reads frames as `Names` does.
#[cfg(any(test, feature = "fuzzing"))]
pub(super) fn frames_of(reply: &[u8]) -> Result<(), StoreError> {
    Names::default().take_frames(reply, &mut NameBudget::default())
}

#[derive(Debug, Default)]
struct Names {
    builder: SymbolBuilder,
    frames: FastMap<[u8; 16], u32>,
}

impl Names {
    fn take_frames(&mut self, reply: &[u8], budget: &mut NameBudget) -> Result<(), StoreError> {
        let mut rows = RowReader::new(reply);
        while rows.has_more() {
            let hash = rows.hash()?;
            let mut function = StoredFunction {
                name: rows.text()?,
                file: rows.text()?,
                line: rows.u32()?,
                column: rows.u32()?,
                category: Category::Unknown,
            };
            let category = Category::ALL.get(usize::from(rows.u8()?));
            function.category = *category.ok_or(StoreError::Reply("an unknown category"))?;
            let (line, column) = (rows.u32()?, rows.u32()?);
            let (tier, kind) = StoredFrame::from_flags(rows.u8()?)
                .ok_or(StoreError::Reply("an unknown tier or kind of frame"))?;
            budget.take_function(&function)?;
            let function = self.builder.function(function);
            let frame = self.builder.frame(StoredFrame {
                function,
                line,
                column,
                tier,
                kind,
            });
            self.frames.insert(hash, frame);
        }
        Ok(())
    }

    fn frame(&mut self, hash: [u8; 16]) -> u32 {
        match self.frames.get(&hash) {
            Some(frame) => *frame,
            None => self.missing(),
        }
    }

    fn missing(&mut self) -> u32 {
        let function = self.builder.function(StoredFunction {
            name: MISSING.to_owned(),
            ..StoredFunction::default()
        });
        self.builder.frame(StoredFrame {
            function,
            ..StoredFrame::default()
        })
    }
}
