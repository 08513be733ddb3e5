//! Stacks by content: each stored once, as what it adds to an older one that begins alike.

use nodespy_model::{Category, FastMap};
use rusqlite::{Connection, OptionalExtension, params};

use crate::block::{Numbers, put};
use crate::error::StoreError;
use crate::selection::{NameBudget, StackId};
use crate::symbols::{
    StackHash, StoredFrame, StoredFunction, SymbolHasher, Symbols, category_number,
};

/// How many stacks, functions and frames a writer remembers.
const MAX_REMEMBERED: usize = 1 << 20;
/// How many beginnings of stacks it remembers.
const MAX_PREFIXES: usize = 1 << 21;
/// How many stacks of the file are remembered by their beginnings at first.
const MAX_REREAD: i64 = 100_000;
/// How many stacks lead to the frames of one.
const MAX_LINKS: usize = 32;
/// The deepest stack that is read.
const MAX_DEPTH: usize = 1024;

/// How many bytes of rows of stacks are read ahead, and after how many rows that were read are forgotten.
const MAX_AHEAD_BYTES: usize = 64 << 20;
const MAX_LINK_BYTES: usize = 2 * MAX_AHEAD_BYTES;
/// What a row takes beside its frames, about.
const LINK_BYTES: usize = 64;

/// Of a chain of stacks, each of which begins like the next: how much of that is kept, and what is added.
type Link = (Option<u32>, usize, Vec<u8>);

/// Rows of stacks that were read.
#[derive(Debug, Default)]
struct Links {
    rows: FastMap<u32, Link>,
    bytes: usize,
}

impl Links {
    fn insert(&mut self, id: u32, link: Link) {
        self.bytes += LINK_BYTES + link.2.len();
        self.rows.insert(id, link);
    }

    /// Whoever may write can make stacks each of which begins like another long one. Called where no row is needed for the next stack.
    fn forget_if_full(&mut self) {
        if self.bytes > MAX_LINK_BYTES {
            *self = Self::default();
        }
    }
}

/// What a writer remembers of names.
#[derive(Debug, Default)]
pub(super) struct StackCache {
    stacks: FastMap<StackHash, u32>,
    functions: FastMap<[u8; 16], u32>,
    frames: FastMap<StoredFrame, u32>,
    /// Stacks that begin with frames of this hash; not read before the first new stack.
    prefixes: Option<FastMap<u64, u32>>,
}

impl StackCache {
    /// The id of a stack that is in the file.
    pub(super) fn find(
        &mut self,
        connection: &Connection,
        hash: StackHash,
    ) -> Result<Option<u32>, StoreError> {
        if let Some(known) = self.stacks.get(&hash) {
            return Ok(Some(*known));
        }
        let found = find(
            connection,
            "SELECT id FROM stack_hash WHERE hash = ?",
            &hash.0,
        )?;
        if let Some(found) = found {
            remember(&mut self.stacks, hash, found, MAX_REMEMBERED);
        }
        Ok(found)
    }

    /// Stores a stack that is not in the file.
    pub(super) fn add(
        &mut self,
        connection: &Connection,
        hash: StackHash,
        stack: &[u32],
        symbols: &Symbols,
        hasher: &SymbolHasher,
    ) -> Result<u32, StoreError> {
        let mut frames = Vec::with_capacity(stack.len());
        for position in stack {
            let frame = &symbols.frames[*position as usize];
            let position = frame.function as usize;
            let function = self.function(
                connection,
                hasher.functions[position],
                &symbols.functions[position],
            )?;
            frames.push(self.frame(connection, StoredFrame { function, ..*frame })?);
        }
        let (base, keep) = self.base_of(connection, &frames)?;
        let mut tail = Vec::new();
        for frame in &frames[keep..] {
            put(&mut tail, u64::from(*frame));
        }
        let id = connection
            .prepare_cached("INSERT INTO stack(base, keep, tail) VALUES (?, ?, ?)")?
            .insert(params![base, keep as i64, tail])?;
        let id = u32::try_from(id).map_err(|_| StoreError::Refused("a store has 2^32 stacks"))?;
        connection
            .prepare_cached("INSERT INTO stack_hash VALUES (?, ?)")?
            .execute(params![hash.0, id])?;
        remember(&mut self.stacks, hash, id, MAX_REMEMBERED);
        if let Some(prefixes) = &mut self.prefixes {
            remember_prefixes(prefixes, &frames, id);
        }
        Ok(id)
    }

    fn function(
        &mut self,
        connection: &Connection,
        hash: [u8; 16],
        function: &StoredFunction,
    ) -> Result<u32, StoreError> {
        if let Some(known) = self.functions.get(&hash) {
            return Ok(*known);
        }
        let found = find(
            connection,
            "SELECT id FROM function_hash WHERE hash = ?",
            &hash,
        )?;
        let id = match found {
            Some(id) => id,
            None => {
                let sql =
                    "INSERT INTO function(name, file, line, col, category) VALUES (?, ?, ?, ?, ?)";
                let id = connection.prepare_cached(sql)?.insert(params![
                    function.name,
                    function.file,
                    function.line,
                    function.column,
                    category_number(function.category),
                ])?;
                connection
                    .prepare_cached("INSERT INTO function_hash VALUES (?, ?)")?
                    .execute(params![hash, id])?;
                id_of(id)?
            }
        };
        remember(&mut self.functions, hash, id, MAX_REMEMBERED);
        Ok(id)
    }

    /// The id of a frame, whose function is an id of the file.
    fn frame(&mut self, connection: &Connection, frame: StoredFrame) -> Result<u32, StoreError> {
        if let Some(known) = self.frames.get(&frame) {
            return Ok(*known);
        }
        let values = params![frame.function, frame.line, frame.column, frame.flags()];
        let sql = "SELECT id FROM frame WHERE function = ? AND line = ? AND col = ? AND flags = ?";
        let known: Option<i64> = connection
            .prepare_cached(sql)?
            .query_row(values, |row| row.get(0))
            .optional()?;
        let id = match known {
            Some(id) => id,
            None => connection
                .prepare_cached(
                    "INSERT INTO frame(function, line, col, flags) VALUES (?, ?, ?, ?)",
                )?
                .insert(values)?,
        };
        let id = id_of(id)?;
        remember(&mut self.frames, frame, id, MAX_REMEMBERED);
        Ok(id)
    }

    /// The stack that begins most like `frames`, and for how many frames.
    fn base_of(
        &mut self,
        connection: &Connection,
        frames: &[u32],
    ) -> Result<(Option<u32>, usize), StoreError> {
        let prefixes = match &mut self.prefixes {
            Some(prefixes) => prefixes,
            None => self.prefixes.insert(reread(connection)?),
        };
        let hashes = prefix_hashes(frames);
        let found = hashes
            .zip(1..)
            .map_while(|(hash, length)| Some((*prefixes.get(&hash)?, length)))
            .last();
        let Some((base, keep)) = found else {
            return Ok((None, 0));
        };
        // A hash of 64 bits may lie, and a long chain is slow to read.
        let mut known = Links::default();
        let is_alike = frames_in(connection, &mut known, base)?.starts_with(&frames[..keep]);
        // It read what leads to the base, and nothing else.
        match is_alike && known.rows.len() < MAX_LINKS {
            true => Ok((Some(base), keep)),
            false => Ok((None, 0)),
        }
    }
}

fn remember<K: Eq + std::hash::Hash>(map: &mut FastMap<K, u32>, key: K, id: u32, max: usize) {
    if map.len() >= max {
        map.clear();
    }
    map.insert(key, id);
}

fn id_of(id: i64) -> Result<u32, StoreError> {
    u32::try_from(id).map_err(|_| StoreError::Damaged("an id is too large"))
}

fn find(connection: &Connection, sql: &str, hash: &[u8; 16]) -> Result<Option<u32>, StoreError> {
    let mut statement = connection.prepare_cached(sql)?;
    let found: Option<i64> = statement
        .query_row(params![hash], |row| row.get(0))
        .optional()?;
    found.map(id_of).transpose()
}

/// A hash for each beginning of a stack, the shortest first.
fn prefix_hashes(frames: &[u32]) -> impl Iterator<Item = u64> {
    frames.iter().scan(0_u64, |hash, frame| {
        let mixed = (*hash ^ u64::from(*frame)).wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        *hash = mixed ^ (mixed >> 27);
        Some(*hash)
    })
}

/// The first stack that begins in some way is remembered for it.
fn remember_prefixes(prefixes: &mut FastMap<u64, u32>, frames: &[u32], id: u32) {
    if prefixes.len() + frames.len() > MAX_PREFIXES {
        prefixes.clear();
    }
    for hash in prefix_hashes(frames) {
        prefixes.entry(hash).or_insert(id);
    }
}

/// How the latest stacks of the file begin.
fn reread(connection: &Connection) -> Result<FastMap<u64, u32>, StoreError> {
    let newest: i64 =
        connection.query_row("SELECT ifnull(max(id), 0) FROM stack", [], |row| row.get(0))?;
    let mut prefixes = FastMap::default();
    let ids: Vec<u32> = connection
        .prepare_cached("SELECT id FROM stack WHERE id > ? ORDER BY id")?
        .query_map([newest - MAX_REREAD], |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    let mut known = Links::default();
    for id in ids {
        known.forget_if_full();
        let frames = frames_in(connection, &mut known, id)?;
        remember_prefixes(&mut prefixes, &frames, id);
    }
    Ok(prefixes)
}

fn link(connection: &Connection, id: u32) -> Result<Link, StoreError> {
    let mut statement =
        connection.prepare_cached("SELECT base, keep, tail FROM stack WHERE id = ?")?;
    let found = statement
        .query_row([id], |row| {
            Ok((row.get(0)?, row.get::<_, i64>(1)?, row.get(2)?))
        })
        .optional()?;
    let (base, keep, tail) = found.ok_or(StoreError::Damaged("a stack is missing"))?;
    Ok((base, usize::try_from(keep).unwrap_or(usize::MAX), tail))
}

/// The stacks that lead to one, itself first. Each base is older, so that this ends. Rows that are read are kept in
/// `known` for the next.
fn chain_of(
    connection: &Connection,
    known: &mut Links,
    stack: u32,
) -> Result<Vec<u32>, StoreError> {
    let mut chain: Vec<u32> = Vec::new();
    let mut next = Some(stack);
    while let Some(id) = next {
        if chain.last().is_some_and(|later| id >= *later) {
            return Err(StoreError::Damaged("a stack begins like a later one"));
        }
        chain.push(id);
        if chain.len() > MAX_LINKS {
            return Err(StoreError::Damaged(
                "too many stacks begin like one another",
            ));
        }
        if !known.rows.contains_key(&id) {
            known.insert(id, link(connection, id)?);
        }
        next = known.rows[&id].0;
    }
    Ok(chain)
}

/// Frames of a stack, root first.
fn frames_in(
    connection: &Connection,
    known: &mut Links,
    stack: u32,
) -> Result<Vec<u32>, StoreError> {
    let mut frames = Vec::new();
    for id in chain_of(connection, known, stack)?.iter().rev() {
        let (_, keep, tail) = &known.rows[id];
        if *keep > frames.len() {
            return Err(StoreError::Damaged(
                "a stack begins with more than there is",
            ));
        }
        frames.truncate(*keep);
        let mut numbers = Numbers::new(tail);
        while !numbers.is_empty() {
            let frame = u32::try_from(numbers.next()?);
            frames.push(frame.map_err(|_| StoreError::Damaged("a frame is missing"))?);
        }
        if frames.len() > MAX_DEPTH {
            return Err(StoreError::Damaged("a stack is too deep"));
        }
    }
    Ok(frames)
}

/// Which of these stacks are not in the file.
pub(super) fn unknown(
    connection: &Connection,
    stacks: &[StackHash],
) -> Result<Vec<StackHash>, StoreError> {
    let mut unknown = Vec::new();
    for stack in stacks {
        let sql = "SELECT id FROM stack_hash WHERE hash = ?";
        if find(connection, sql, &stack.0)?.is_none() {
            unknown.push(*stack);
        }
    }
    Ok(unknown)
}

/// The names of stacks.
pub(super) fn names(
    connection: &Connection,
    stacks: &[StackId],
    budget: &mut NameBudget,
) -> Result<Symbols, StoreError> {
    let mut known = many(connection, stacks.len())?;
    let mut names = Names {
        connection,
        symbols: Symbols::default(),
        functions: FastMap::default(),
        frames: FastMap::default(),
        budget,
    };
    for stack in stacks {
        known.forget_if_full();
        let id = u32::try_from(stack.0).map_err(|_| StoreError::Damaged("a stack is missing"))?;
        let mut frames = frames_in(connection, &mut known, id)?;
        names.budget.take_stack(frames.len())?;
        frames.shrink_to_fit();
        for frame in &mut frames {
            *frame = names.frame(*frame)?;
        }
        names.symbols.stacks.push(frames);
    }
    Ok(names.symbols)
}

/// The stacks of the file, as far as there is room, where many are asked for: reading them in order is faster than one by one.
fn many(connection: &Connection, asked: usize) -> Result<Links, StoreError> {
    let newest: i64 =
        connection.query_row("SELECT ifnull(max(id), 0) FROM stack", [], |row| row.get(0))?;
    let mut known = Links::default();
    if (asked as i64).saturating_mul(8) < newest {
        return Ok(known);
    }
    let mut statement = connection.prepare_cached("SELECT id, base, keep, tail FROM stack")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let keep = usize::try_from(row.get::<_, i64>(2)?).unwrap_or(usize::MAX);
        known.insert(row.get(0)?, (row.get(1)?, keep, row.get(3)?));
        if known.bytes > MAX_AHEAD_BYTES {
            break;
        }
    }
    Ok(known)
}

/// Names that are read as they are needed.
struct Names<'a> {
    connection: &'a Connection,
    symbols: Symbols,
    functions: FastMap<u32, u32>,
    frames: FastMap<u32, u32>,
    budget: &'a mut NameBudget,
}

impl Names<'_> {
    fn frame(&mut self, id: u32) -> Result<u32, StoreError> {
        if let Some(known) = self.frames.get(&id) {
            return Ok(*known);
        }
        let row: Option<(u32, u32, u32, u8)> = self
            .connection
            .prepare_cached("SELECT function, line, col, flags FROM frame WHERE id = ?")?
            .query_row([id], |row| {
                Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))
            })
            .optional()?;
        let (function, line, column, flags) =
            row.ok_or(StoreError::Damaged("a frame is missing"))?;
        let (tier, kind) = StoredFrame::from_flags(flags).ok_or(StoreError::Damaged(
            "a tier or a kind of frame that is not known",
        ))?;
        let function = self.function(function)?;
        self.budget.take_frame()?;
        let position = self.symbols.frames.len() as u32;
        self.symbols.frames.push(StoredFrame {
            function,
            line,
            column,
            tier,
            kind,
        });
        self.frames.insert(id, position);
        Ok(position)
    }

    fn function(&mut self, id: u32) -> Result<u32, StoreError> {
        if let Some(known) = self.functions.get(&id) {
            return Ok(*known);
        }
        let sql = "SELECT name, file, line, col, category FROM function WHERE id = ?";
        let function: Option<(StoredFunction, u8)> = self
            .connection
            .prepare_cached(sql)?
            .query_row([id], |row| {
                let function = StoredFunction {
                    name: row.get(0)?,
                    file: row.get(1)?,
                    line: row.get(2)?,
                    column: row.get(3)?,
                    category: Category::Unknown,
                };
                Ok((function, row.get(4)?))
            })
            .optional()?;
        let (mut function, category) =
            function.ok_or(StoreError::Damaged("a function is missing"))?;
        function.category = *Category::ALL
            .get(usize::from(category))
            .ok_or(StoreError::Damaged("a category that is not known"))?;
        self.budget.take_function(&function)?;
        let position = self.symbols.functions.len() as u32;
        self.symbols.functions.push(function);
        self.functions.insert(id, position);
        Ok(position)
    }
}
