//! The commands whose replies are awaited.
//!
//! Only a reply to one of them is kept, and only until it is taken: a reply that no command awaits
//! is dropped and counted, so a recording of months holds no more than one of a minute.

use std::collections::HashMap;

use crate::message::Complaint;
use crate::session::Recipient;

pub(crate) type Reply = Result<String, Complaint>;

#[derive(Debug)]
struct Command {
    recipient: Recipient,
    /// The command to the main thread that carried it to a worker.
    carrier: Option<u64>,
    reply: Option<Reply>,
}

/// The commands whose replies are awaited. Ids are unique in a session, whichever thread is the recipient.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    commands: HashMap<u64, Command>,
    /// Carriers that were not answered yet, and the commands they carried.
    carriers: HashMap<u64, u64>,
    bytes: usize,
    dropped: u64,
}

impl Pending {
    pub(crate) fn expect(&mut self, id: u64, recipient: Recipient, carrier: Option<u64>) {
        if let Some(carrier) = carrier {
            self.carriers.insert(carrier, id);
        }
        let command = Command {
            recipient,
            carrier,
            reply: None,
        };
        self.commands.insert(id, command);
    }

    /// Files a reply with its command, or drops it. `reply` is made only for a command that waits.
    pub(crate) fn answer(&mut self, from: &Recipient, id: u64, reply: impl FnOnce() -> Reply) {
        if *from == Recipient::Main
            && let Some(carried) = self.carriers.remove(&id)
        {
            // The carrier's success means nothing; its failure means that the worker is gone.
            if let (Some(command), Err(complaint)) = (self.commands.get_mut(&carried), reply())
                && command.reply.is_none()
            {
                command.reply = Some(Err(complaint));
            }
            return;
        }
        match self.commands.get_mut(&id) {
            Some(command) if command.recipient == *from && command.reply.is_none() => {
                let reply = reply();
                self.bytes += reply.as_ref().map_or(0, String::len);
                command.reply = Some(reply);
            }
            _ => self.dropped += 1,
        }
    }

    /// The reply to a command, which then is not awaited any more.
    pub(crate) fn take(&mut self, id: u64) -> Option<Reply> {
        self.commands.get(&id)?.reply.as_ref()?;
        self.remove(id)?.reply
    }

    /// Stops waiting for the reply to a command.
    pub(crate) fn abandon(&mut self, id: u64) {
        self.remove(id);
    }

    /// Stops waiting for a thread.
    pub(crate) fn forget(&mut self, recipient: &Recipient) {
        let is_its = |command: &Command| command.recipient == *recipient;
        let ids: Vec<u64> = self
            .commands
            .iter()
            .filter(|(_, command)| is_its(command))
            .map(|(&id, _)| id)
            .collect();
        for id in ids {
            self.remove(id);
        }
    }

    /// Bytes of replies that were not taken yet.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Replies that no command awaited.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Commands that were not answered and taken yet.
    pub(crate) fn len(&self) -> usize {
        self.commands.len()
    }

    fn remove(&mut self, id: u64) -> Option<Command> {
        let command = self.commands.remove(&id)?;
        if let Some(carrier) = command.carrier {
            self.carriers.remove(&carrier);
        }
        if let Some(Ok(reply)) = &command.reply {
            self.bytes -= reply.len();
        }
        Some(command)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ok() -> Reply {
        Ok("{}".to_owned())
    }

    #[test]
    fn only_the_first_reply_of_the_right_thread_is_kept() {
        let mut pending = Pending::default();
        let worker = Recipient::Worker("1".to_owned());
        pending.expect(7, worker.clone(), Some(8));
        pending.answer(&Recipient::Main, 7, || panic!("not from the main thread"));
        pending.answer(&Recipient::Main, 8, ok);
        assert!(pending.take(7).is_none());
        pending.answer(&worker, 7, ok);
        pending.answer(&worker, 7, || panic!("it is answered"));
        assert_eq!((pending.bytes(), pending.dropped()), (2, 2));
        assert!(matches!(pending.take(7), Some(Ok(_))));
        assert_eq!((pending.bytes(), pending.len()), (0, 0));
        assert!(pending.carriers.is_empty());
    }

    #[test]
    fn a_carrier_that_fails_fails_its_command() {
        let mut pending = Pending::default();
        pending.expect(7, Recipient::Worker("1".to_owned()), Some(8));
        let gone = || {
            Err(Complaint {
                message: "No such session".to_owned(),
            })
        };
        pending.answer(&Recipient::Main, 8, gone);
        assert!(matches!(pending.take(7), Some(Err(_))));
    }

    #[test]
    fn a_thread_that_is_forgotten_leaves_nothing() {
        let mut pending = Pending::default();
        let worker = Recipient::Worker("1".to_owned());
        for id in 0..100 {
            pending.expect(2 * id, worker.clone(), Some(2 * id + 1));
            pending.answer(&worker, 2 * (id / 2), ok);
        }
        pending.expect(1000, Recipient::Main, None);
        pending.forget(&worker);
        assert_eq!((pending.bytes(), pending.len()), (0, 1));
        assert!(pending.carriers.is_empty());
        pending.abandon(1000);
        assert_eq!(pending.len(), 0);
    }
}
