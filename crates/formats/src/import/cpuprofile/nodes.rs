//! The call tree of a profile: its nodes as the file has them, and the stacks they stand for.
//!
//! Nodes name their children, or their parent, by id; ids are neither positions nor in order.
//! Files of old nest the children inside. Nothing here follows the tree by recursion: a file may
//! be a million levels deep.

use std::borrow::Cow;

use nodespy_model::{
    Category, FastMap, Frame, FrameIndex, FrameKind, FunctionIndex, Notes, ProfileBuilder,
    StackIndex, Tier,
};

use crate::call_frame::CallFrame;
use crate::json::{JsonError, Kind, Reader};

/// A node's position among the nodes.
pub(crate) type Row = u32;

/// No row.
const NONE: Row = Row::MAX;

/// One node.
#[derive(Debug)]
struct Node {
    parent: Row,
    /// None for the root, and for a node that says nothing of itself.
    function: Option<FunctionIndex>,
    /// What V8 counted here: samples, or bytes in a profile of the heap.
    own: u64,
    /// Where it starts in the file.
    at: u64,
    /// Its path at no particular line, once it is known.
    stack: Known,
}

/// What is known of a node's stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Known {
    NotYet,
    /// Its ancestors are being looked at: who meets it again goes round in a circle.
    Looking,
    Stack(Option<StackIndex>),
}

/// Ticks of one line of a node, in the order of the file.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ticks {
    pub(super) row: Row,
    pub(super) line: u32,
    pub(super) count: u64,
}

/// The nodes of one profile.
#[derive(Debug, Default)]
pub(crate) struct Nodes {
    rows: Vec<Node>,
    ids: Ids,
    /// Children that were named by their id.
    links: Vec<(Row, u32)>,
    /// Parents that were named by their id.
    parents: Vec<(Row, u32)>,
    ticks: Vec<Ticks>,
    /// The frame of each function at no particular line, once it is known.
    plain_frames: FastMap<FunctionIndex, FrameIndex>,
    oddities: Oddities,
}

/// What is wrong with the tree: how often, and at which byte first.
#[derive(Debug, Default)]
struct Oddities {
    double_ids: Odd,
    missing_ids: Odd,
    second_parents: Odd,
    circles: Odd,
}

#[derive(Debug, Default)]
struct Odd {
    count: u64,
    first_at: u64,
}

impl Odd {
    fn add(&mut self, at: u64) {
        if self.count == 0 {
            self.first_at = at;
        }
        self.count += 1;
    }

    fn remark(&self, what: &str, notes: &mut Notes) {
        if self.count > 0 {
            let Self { count, first_at } = self;
            notes.remark(format!("{count} {what}, the first at byte {first_at}"));
        }
    }
}

/// Functions by the bytes of their call frames: the same few are written again and again.
#[derive(Debug, Default)]
pub(crate) struct Functions<'a> {
    known: FastMap<&'a [u8], Option<FunctionIndex>>,
}

impl<'a> Functions<'a> {
    fn read(
        &mut self,
        reader: &mut Reader<'a>,
        builder: &mut ProfileBuilder,
    ) -> Result<Option<FunctionIndex>, JsonError> {
        let mut again = reader.clone();
        let bytes = reader.raw()?;
        if let Some(function) = self.known.get(bytes) {
            return Ok(*function);
        }
        let function = CallFrame::read(&mut again)?.function(0, builder);
        self.known.insert(bytes, function);
        Ok(function)
    }
}

/// A node whose object is not closed yet.
struct Open<'a> {
    row: Row,
    /// What it says of its function, when that is not in a `callFrame`.
    frame: CallFrame<'a>,
    has_call_frame: bool,
    /// Why V8 dropped its optimized code.
    deopt_reason: Cow<'a, str>,
}

impl Nodes {
    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    /// The row of the node with this id.
    pub(crate) fn row_of(&self, id: u32) -> Option<Row> {
        self.ids.get(id)
    }

    /// Adds a node that another format describes. False when its id is taken.
    pub(crate) fn add(&mut self, id: u32, parent: Option<u32>, function: FunctionIndex) -> bool {
        let row = self.rows.len() as Row;
        if !self.ids.insert(id, row) {
            return false;
        }
        self.parents.extend(parent.map(|parent| (row, parent)));
        self.rows.push(Node {
            parent: NONE,
            function: Some(function),
            own: 0,
            at: 0,
            stack: Known::NotYet,
        });
        true
    }

    /// Reads an array of nodes.
    pub(crate) fn read_array<'a>(
        &mut self,
        reader: &mut Reader<'a>,
        functions: &mut Functions<'a>,
        builder: &mut ProfileBuilder,
    ) -> Result<(), JsonError> {
        reader.enter_array()?;
        while reader.element()? {
            self.read_node(reader, functions, builder)?;
        }
        Ok(())
    }

    /// Reads a node and everything nested in it.
    pub(crate) fn read_node<'a>(
        &mut self,
        reader: &mut Reader<'a>,
        functions: &mut Functions<'a>,
        builder: &mut ProfileBuilder,
    ) -> Result<(), JsonError> {
        let mut open = Vec::new();
        let read = self.read_open(&mut open, reader, functions, builder);
        // Nothing is left open unless the file ends here: what was said until then counts.
        let first_line = open.first().map_or(0, |root| first_line(&root.frame));
        for node in &open {
            self.close(node, first_line, builder);
        }
        read
    }

    fn read_open<'a>(
        &mut self,
        open: &mut Vec<Open<'a>>,
        reader: &mut Reader<'a>,
        functions: &mut Functions<'a>,
        builder: &mut ProfileBuilder,
    ) -> Result<(), JsonError> {
        self.open(open, reader)?;
        while let Some(node) = open.last_mut() {
            let row = node.row;
            let Some(key) = reader.key()? else {
                let first_line = first_line(&open[0].frame);
                let node = open.pop().expect("the loop has seen it");
                self.close(&node, first_line, builder);
                if !open.is_empty() && reader.element()? {
                    self.open(open, reader)?;
                }
                continue;
            };
            match &*key {
                "id" => self.read_id(row, reader)?,
                "callFrame" => {
                    node.has_call_frame = true;
                    self.rows[row as usize].function = functions.read(reader, builder)?;
                }
                "hitCount" | "selfSize" => {
                    let own = reader.any_number()?.map_or(0, |own| own.as_i64());
                    self.rows[row as usize].own = own.max(0) as u64;
                }
                "parent" => {
                    if let Some(id) = read_id(reader)? {
                        self.parents.push((row, id));
                    }
                }
                "children" if reader.kind()? == Kind::Array => {
                    reader.enter_array()?;
                    if self.read_links(row, reader)? {
                        self.open(open, reader)?;
                    }
                }
                "positionTicks" if reader.kind()? == Kind::Array => {
                    self.read_ticks(row, reader)?;
                }
                "deoptReason" | "bailoutReason" => node.deopt_reason = reader.any_text()?,
                key => {
                    if !node.frame.read_field(key, reader)? {
                        reader.skip()?;
                    }
                }
            }
        }
        Ok(())
    }

    fn open<'a>(
        &mut self,
        open: &mut Vec<Open<'a>>,
        reader: &mut Reader<'a>,
    ) -> Result<(), JsonError> {
        let parent = open.last().map_or(NONE, |parent| parent.row);
        reader.enter_object()?;
        let row = Row::try_from(self.rows.len())
            .ok()
            .filter(|row| *row < NONE)
            .ok_or_else(|| reader.expected("no more than 2^32 nodes"))?;
        self.rows.push(Node {
            parent,
            function: None,
            own: 0,
            at: reader.position() as u64 - 1,
            stack: Known::NotYet,
        });
        open.push(Open {
            row,
            frame: CallFrame::default(),
            has_call_frame: false,
            deopt_reason: Cow::Borrowed(""),
        });
        Ok(())
    }

    fn close(&mut self, node: &Open<'_>, first_line: i64, builder: &mut ProfileBuilder) {
        if !node.has_call_frame && node.frame != CallFrame::default() {
            self.rows[node.row as usize].function = node.frame.function(first_line, builder);
        }
        if let Some(function) = self.rows[node.row as usize].function
            && !matches!(&*node.deopt_reason, "" | "no reason")
        {
            builder.deopt_reason(function, &node.deopt_reason);
        }
    }

    /// Reads children that are named by id; whether a child that is nested comes next.
    fn read_links(&mut self, row: Row, reader: &mut Reader<'_>) -> Result<bool, JsonError> {
        while reader.element()? {
            if reader.kind()? == Kind::Object {
                return Ok(true);
            }
            if let Some(id) = read_id(reader)? {
                self.links.push((row, id));
            }
        }
        Ok(false)
    }

    fn read_id(&mut self, row: Row, reader: &mut Reader<'_>) -> Result<(), JsonError> {
        if let Some(id) = read_id(reader)?
            && !self.ids.insert(id, row)
        {
            self.oddities.double_ids.add(self.rows[row as usize].at);
        }
        Ok(())
    }

    fn read_ticks(&mut self, row: Row, reader: &mut Reader<'_>) -> Result<(), JsonError> {
        reader.enter_array()?;
        while reader.element()? {
            let mut ticks = Ticks {
                row,
                line: 0,
                count: 0,
            };
            reader.enter_object()?;
            while let Some(key) = reader.key()? {
                match &*key {
                    "line" => {
                        let line = reader.any_number()?.map_or(0, |line| line.as_i64());
                        ticks.line = u32::try_from(line).unwrap_or(0);
                    }
                    "ticks" => {
                        let count = reader.any_number()?.map_or(0, |count| count.as_i64());
                        ticks.count = u64::try_from(count).unwrap_or(0);
                    }
                    _ => reader.skip()?,
                }
            }
            if ticks.count > 0 {
                self.ticks.push(ticks);
            }
        }
        Ok(())
    }

    /// Joins nodes that name one another by id. What can't be joined becomes a root of its own.
    pub(crate) fn join(&mut self) {
        for (row, id) in std::mem::take(&mut self.links) {
            match self.ids.get(id) {
                Some(child) => self.set_parent(child, row),
                None => self.oddities.missing_ids.add(self.rows[row as usize].at),
            }
        }
        for (row, id) in std::mem::take(&mut self.parents) {
            match self.ids.get(id) {
                Some(parent) => self.set_parent(row, parent),
                None => self.oddities.missing_ids.add(self.rows[row as usize].at),
            }
        }
    }

    fn set_parent(&mut self, child: Row, parent: Row) {
        let node = &mut self.rows[child as usize];
        match node.parent {
            NONE => node.parent = parent,
            known if known == parent => {}
            _ => self.oddities.second_parents.add(node.at),
        }
    }

    /// The path to a node and through it, at no particular line.
    pub(crate) fn stack(&mut self, row: Row, builder: &mut ProfileBuilder) -> Option<StackIndex> {
        let mut path = Vec::new();
        let mut next = row;
        let mut stack = None;
        while next != NONE {
            let node = &mut self.rows[next as usize];
            match node.stack {
                Known::Stack(known) => {
                    stack = known;
                    break;
                }
                Known::Looking => {
                    self.oddities.circles.add(node.at);
                    break;
                }
                Known::NotYet => {
                    node.stack = Known::Looking;
                    path.push(next);
                    next = node.parent;
                }
            }
        }
        for row in path.into_iter().rev() {
            if let Some(function) = self.rows[row as usize].function {
                let frame = self.plain_frame(function, builder);
                stack = Some(builder.stack(stack, frame));
            }
            self.rows[row as usize].stack = Known::Stack(stack);
        }
        stack
    }

    fn plain_frame(&mut self, function: FunctionIndex, builder: &mut ProfileBuilder) -> FrameIndex {
        // A trace may have as many profiles as functions, so no list of all functions here.
        *self
            .plain_frames
            .entry(function)
            .or_insert_with(|| builder.frame_of(frame_at(function, 0)))
    }

    /// The path to a node and through it, at a line.
    pub(super) fn stack_at(
        &mut self,
        row: Row,
        line: u32,
        builder: &mut ProfileBuilder,
    ) -> Option<StackIndex> {
        let node = &self.rows[row as usize];
        let (Some(function), 1..) = (node.function, line) else {
            return self.stack(row, builder);
        };
        let parent = match node.parent {
            NONE => None,
            parent => self.stack(parent, builder),
        };
        let frame = builder.frame_of(frame_at(function, line));
        Some(builder.stack(parent, frame))
    }

    /// The function of a node.
    pub(super) fn function(&self, row: Row) -> Option<FunctionIndex> {
        self.rows[row as usize].function
    }

    /// Whether nothing but the root is above a node.
    pub(super) fn is_outermost(&self, row: Row) -> bool {
        match self.rows[row as usize].parent {
            NONE => true,
            parent => {
                let parent = &self.rows[parent as usize];
                parent.parent == NONE && parent.function.is_none()
            }
        }
    }

    /// What V8 counted in each node, where it counted anything.
    pub(crate) fn counts(&self) -> impl Iterator<Item = (Row, u64)> + '_ {
        let rows = self.rows.iter().enumerate();
        rows.filter(|(_, node)| node.own > 0)
            .map(|(row, node)| (row as Row, node.own))
    }

    /// The ticks of all nodes, those of a node together.
    pub(super) fn take_ticks(&mut self) -> Vec<Ticks> {
        let mut ticks = std::mem::take(&mut self.ticks);
        if !ticks.is_sorted_by_key(|ticks| ticks.row) {
            ticks.sort_by_key(|ticks| ticks.row);
        }
        ticks
    }

    /// Whether some node waits, and whether the names are those of Node before version 16.
    pub(super) fn is_without_idle(&self, builder: &ProfileBuilder) -> bool {
        let profile = builder.so_far();
        let is_old = |function: FunctionIndex| {
            profile.function(function).category == Category::NodeCore
                && !profile.file_of(function).starts_with("node:")
        };
        let mut has_old = false;
        for function in self.rows.iter().filter_map(|node| node.function) {
            if profile.function(function).category == Category::Idle {
                return false;
            }
            has_old |= is_old(function);
        }
        has_old
    }

    /// Says what is wrong with the tree.
    pub(crate) fn remark(&self, notes: &mut Notes) {
        let oddities = &self.oddities;
        oddities.double_ids.remark(
            "nodes have the id of another and can't be distinguished from it",
            notes,
        );
        oddities
            .missing_ids
            .remark("nodes name a child or parent that is not there", notes);
        oddities
            .second_parents
            .remark("nodes have a second parent, which was left out", notes);
        oddities.circles.remark(
            "nodes are their own ancestors; the circle was cut there",
            notes,
        );
    }
}

/// The number that the first line has in a file of old: Chrome counted from 0, as it does today,
/// and gave the root line -1; the `v8-profiler` package counted from 1 and gave it 0.
fn first_line(root: &CallFrame<'_>) -> i64 {
    i64::from(root.line == Some(0))
}

fn read_id(reader: &mut Reader<'_>) -> Result<Option<u32>, JsonError> {
    let number = reader.any_number()?;
    Ok(number.and_then(|number| u32::try_from(number.as_i64()).ok()))
}

/// A function at a line.
pub(crate) fn frame_at(function: FunctionIndex, line: u32) -> Frame {
    Frame {
        function,
        line,
        column: 0,
        tier: Tier::None,
        kind: FrameKind::Physical,
    }
}

/// Rows by id: most ids are small and lie close together, but none has to.
#[derive(Debug, Default)]
struct Ids {
    dense: Vec<Row>,
    sparse: FastMap<u32, Row>,
    count: usize,
}

impl Ids {
    /// Keeps the row of an id; false when the id is taken.
    fn insert(&mut self, id: u32, row: Row) -> bool {
        if self.get(id).is_some() {
            return false;
        }
        self.count += 1;
        let position = id as usize;
        if position >= 64 + 4 * self.count {
            self.sparse.insert(id, row);
            return true;
        }
        if position >= self.dense.len() {
            self.dense.resize(position + 1, NONE);
        }
        self.dense[position] = row;
        true
    }

    fn get(&self, id: u32) -> Option<Row> {
        match self.dense.get(id as usize) {
            Some(&row) if row != NONE => Some(row),
            _ => self.sparse.get(&id).copied(),
        }
    }
}
