//! From what people say to processes: pids, names, containers, pods, pm2's apps, ports, groups.
//!
//! Ways to say it narrow one another: `-c web --port 3000` is who listens there in that container.
//! A name that means several applications is not guessed at; the candidates are listed.

use nodespy_model::{JsRuntime, SmallSort};

use super::cgroup::{Cgroups, Group, Level, without_mount};
use super::container::{Container, container_of, known_containers};
use super::pod::find_pod;
use super::resident::{Resident, residents};
use super::{Target, looks_like_node, ports, proc, program};
use crate::error::CaptureError;
use crate::sys::files::open_regular;

/// How many candidates are listed.
const MAX_LISTED: usize = 12;

/// What to look at, in the user's words.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wanted {
    /// These processes.
    pub pids: Vec<u32>,
    /// Script, package or app of pm2.
    pub name: Option<String>,
    /// Name, id or beginning of the id of a container.
    pub container: Option<String>,
    /// `[NAMESPACE/]POD[:CONTAINER]`.
    pub pod: Option<String>,
    /// Name or number of an app of pm2.
    pub pm2: Option<String>,
    /// Who listens on this port.
    pub port: Option<u16>,
    /// A control group, with those below it.
    pub cgroup: Option<String>,
    /// Everything.
    pub all: bool,
    /// Processes that are not Node.js too.
    pub any: bool,
}

/// The processes that were meant, held.
#[derive(Debug, Default)]
pub struct Selection {
    /// In the order of their pids.
    pub targets: Vec<Target>,
    /// What was left out, in sentences.
    pub remarks: Vec<String>,
}

impl Wanted {
    /// Whether nothing was said.
    pub fn is_empty(&self) -> bool {
        *self
            == Self {
                any: self.any,
                ..Self::default()
            }
    }

    /// Finds the processes and takes hold of them. Where everything is asked for, those that
    /// `may_record` refuses are left out as long as others are not.
    pub fn hold(&self, may_record: impl Fn(u32) -> bool) -> Result<Selection, CaptureError> {
        if !self.pids.is_empty() {
            let targets = hold_pids(&self.pids, self.any)?;
            return Ok(Selection {
                targets,
                remarks: Vec::new(),
            });
        }
        let everybody = residents(self.any);
        let mut chosen = self.choose(&everybody)?;
        let mut remarks = Vec::new();
        if self.all {
            leave_out_refused(&mut chosen, may_record, &mut remarks);
        }
        let mut targets = Vec::new();
        for resident in &chosen {
            // Whoever has the number now must be the one that was found.
            match Target::hold_started(resident.pid, resident.start_time) {
                Ok(target) if self.any || is_node(target.pid()) => targets.push(target),
                Ok(_) => remarks.push(format!(
                    "process {} is only called node: what runs is not Node.js, so it is left out",
                    resident.pid
                )),
                Err(error) if chosen.len() > 1 => remarks.push(error.to_string()),
                Err(error) => return Err(error),
            }
        }
        match targets.is_empty() {
            true => Err(CaptureError::not_found(match remarks.is_empty() {
                true => "no Node.js process runs on this machine".to_owned(),
                false => remarks.join("; "),
            })),
            false => Ok(Selection { targets, remarks }),
        }
    }

    /// Whether a process that appeared later belongs to what is wanted.
    pub fn admits(&self, resident: &Resident) -> bool {
        self.pids.is_empty()
            && !resident.is_pm2_itself
            && self
                .choose(std::slice::from_ref(resident))
                .is_ok_and(|chosen| !chosen.is_empty())
    }

    /// The same with the whole name of the pod of `targets` in place of its beginning, which may
    /// come to mean another pod as well.
    pub(crate) fn settled_on(mut self, targets: &[Target]) -> Self {
        if let (Some(text), Some(target)) = (&self.pod, targets.first())
            && let Some(container) = Cgroups::of(target.pid())
                .container()
                .map(|it| container_of(&it))
            && let (Some(namespace), Some(pod)) = (&container.namespace, &container.pod)
        {
            let name = container.name.as_ref().filter(|_| text.contains(':'));
            let name = name.map_or_else(String::new, |name| format!(":{name}"));
            self.pod = Some(format!("{namespace}/{pod}{name}"));
        }
        self
    }

    /// Whether processes that are born later can belong to it.
    pub(crate) fn can_grow(&self) -> bool {
        self.container.is_some()
            || self.pod.is_some()
            || self.cgroup.is_some()
            || self.pm2.is_some()
            || self.all
    }

    /// The control group that everybody wanted is in; none when only some of its processes are
    /// wanted, or when `targets` are in several.
    pub fn group(&self, targets: &[Target]) -> Option<Group> {
        let is_narrowed = !self.pids.is_empty()
            || self.name.is_some()
            || self.pm2.is_some()
            || self.port.is_some();
        let path = self.cgroup.as_deref().map(without_mount);
        let level = match (&self.container, &self.pod, &path) {
            _ if is_narrowed => return None,
            (Some(_), None, None) => Level::Container,
            (None, Some(pod), None) if pod.contains(':') => Level::Container,
            (None, Some(_), None) => Level::Pod,
            (None, None, Some(path)) => Level::Path(path),
            _ => return None,
        };
        let processes: Vec<Cgroups> = targets
            .iter()
            .filter(|target| !target.has_ended())
            .map(|target| Cgroups::of(target.pid()))
            .collect();
        Group::around(&processes, &level)
    }

    fn choose(&self, everybody: &[Resident]) -> Result<Vec<Resident>, CaptureError> {
        let mut left: Vec<&Resident> = everybody.iter().collect();
        if let Some(text) = &self.container {
            left = in_container(left, text)?;
        }
        if let Some(text) = &self.pod {
            left = in_pod(left, text)?;
        }
        if let Some(path) = &self.cgroup {
            left = in_cgroup(left, path)?;
        }
        if let Some(port) = self.port {
            left = listening_on(left, port)?;
        }
        if let Some(text) = &self.pm2 {
            left = in_pm2(left, text)?;
        }
        if let Some(text) = &self.name {
            left = called(left, text)?;
        }
        // Whoever asks for pm2 by its own name means it.
        if self.name.is_none() {
            left.retain(|resident| !resident.is_pm2_itself);
        }
        if left.is_empty() && !everybody.is_empty() && !self.is_empty() && !self.all {
            return Err(CaptureError::not_found(
                "only pm2 itself runs there; to record it all the same give its pid with -p"
                    .to_owned(),
            ));
        }
        Ok(left.into_iter().cloned().collect())
    }
}

/// Takes hold of each process once. One that is neither Node.js nor like it is refused unless `any`
/// will do.
fn hold_pids(pids: &[u32], any: bool) -> Result<Vec<Target>, CaptureError> {
    let mut targets: Vec<Target> = Vec::new();
    for &pid in pids {
        let target = Target::hold(pid)?;
        if !any && !looks_like_node(target.pid()) && program(target.pid()).is_none() {
            let program = proc::command_line(pid).first().map_or_else(
                || "a kernel thread".to_owned(),
                |name| nodespy_model::printable(name).into_owned(),
            );
            return Err(CaptureError::NotNode { pid, program });
        }
        if targets.iter().all(|known| known.pid() != target.pid()) {
            targets.push(target);
        }
    }
    Ok(targets)
}

/// Whether what is called node is Node: its file, or the library it uses, says so. Where the file may
/// not be read, its name has to do.
fn is_node(pid: u32) -> bool {
    let is_readable = open_regular(&proc::path_of(pid, "exe")).is_ok();
    !is_readable || program(pid).is_some_and(|found| found.runtime == JsRuntime::Node)
}

/// Leaves out what belongs to other users, where that matters, when everything was asked for.
fn leave_out_refused(
    chosen: &mut Vec<Resident>,
    may_record: impl Fn(u32) -> bool,
    remarks: &mut Vec<String>,
) {
    let is_allowed = |resident: &Resident| may_record(resident.pid);
    let refused: Vec<String> = chosen
        .iter()
        .filter(|resident| !is_allowed(resident))
        .map(|resident| resident.pid.to_string())
        .collect();
    if !refused.is_empty() && refused.len() < chosen.len() {
        chosen.retain(is_allowed);
        remarks.push(format!(
            "left out, as nodespy may not look at them: pid {} (`nodespy check -p PID` says why)",
            refused.join(", ")
        ));
    }
}

fn in_container<'a>(
    everybody: Vec<&'a Resident>,
    text: &str,
) -> Result<Vec<&'a Resident>, CaptureError> {
    let id = find_container(&everybody, text)?;
    let left: Vec<&Resident> = everybody
        .into_iter()
        .filter(|resident| is_in_container(resident, &id))
        .collect();
    match left.is_empty() {
        false => Ok(left),
        true => Err(CaptureError::not_found(format!(
            "no Node.js process runs in container {text} (to look at other programs add --any)"
        ))),
    }
}

fn is_in_container(resident: &Resident, id: &str) -> bool {
    let container = resident.container.as_ref();
    container.is_some_and(|container| container.id == id)
}

/// The id of the one container that goes by `text`.
fn find_container(everybody: &[&Resident], text: &str) -> Result<String, CaptureError> {
    let mut all: Vec<Container> = known_containers();
    for container in everybody
        .iter()
        .filter_map(|resident| resident.container.as_ref())
    {
        if !all.iter().any(|known| known.id == container.id) {
            all.push(container.clone());
        }
    }
    all.small_sort_by_key(Container::title);
    let is_exact =
        |container: &&Container| container.name.as_deref() == Some(text) || container.id == text;
    let mut matching: Vec<&Container> = all.iter().filter(is_exact).collect();
    if matching.is_empty() {
        matching = all.iter().filter(|each| each.is_called(text)).collect();
    }
    let words = |containers: &[&Container]| {
        list(containers.iter().map(|container| {
            let title = nodespy_model::printable(&container.title()).into_owned();
            format!("{title} ({})", container.short_id())
        }))
    };
    let is_running = |container: &&Container| {
        container.is_running
            || everybody
                .iter()
                .any(|each| is_in_container(each, &container.id))
    };
    let running: Vec<&Container> = matching.iter().copied().filter(is_running).collect();
    match (running.as_slice(), matching.as_slice()) {
        ([only], _) => Ok(only.id.clone()),
        ([], [stopped, ..]) => Err(CaptureError::not_found(format!(
            "container {} does not run",
            nodespy_model::printable(&stopped.title())
        ))),
        ([], []) => {
            let running: Vec<&Container> = all.iter().filter(is_running).collect();
            Err(CaptureError::not_found(match running.is_empty() {
                true => format!(
                    "no container is called {text:?}: no engine could be asked, and no process is \
                     in a container (is DOCKER_HOST right? may you read its socket?)"
                ),
                false => format!(
                    "no running container is called {text:?}; there are {}",
                    words(&running)
                ),
            }))
        }
        (several, _) => Err(CaptureError::ambiguous(format!(
            "{text:?} can be several containers: {}; write more of the id",
            words(several)
        ))),
    }
}

fn in_pod<'a>(everybody: Vec<&'a Resident>, text: &str) -> Result<Vec<&'a Resident>, CaptureError> {
    let containers: Vec<&Container> = everybody
        .iter()
        .filter_map(|resident| resident.container.as_ref())
        .collect();
    let ids = find_pod(&containers, text)?;
    let is_inside =
        |resident: &&Resident| ids.iter().any(|id| is_in_container(resident, id.as_str()));
    Ok(everybody.into_iter().filter(is_inside).collect())
}

fn in_cgroup<'a>(
    everybody: Vec<&'a Resident>,
    path: &str,
) -> Result<Vec<&'a Resident>, CaptureError> {
    let wanted = without_mount(path);
    let left: Vec<&Resident> = everybody
        .into_iter()
        .filter(|resident| Cgroups::of(resident.pid).is_in(&wanted))
        .collect();
    match left.is_empty() {
        false => Ok(left),
        true => Err(CaptureError::not_found(format!(
            "no Node.js process is in the control group {wanted}"
        ))),
    }
}

fn listening_on(everybody: Vec<&Resident>, port: u16) -> Result<Vec<&Resident>, CaptureError> {
    let mut holders: Vec<&Resident> = everybody
        .iter()
        .copied()
        .filter(|resident| ports::is_listening(resident.pid, port))
        .collect();
    // In cluster mode pm2's daemon listens, and hands the connections to the workers of the app.
    if holders.iter().any(|holder| holder.is_pm2_itself) {
        let daemons: Vec<u32> = holders
            .iter()
            .filter(|holder| holder.is_pm2_itself)
            .map(|holder| holder.pid)
            .collect();
        let is_worker = |resident: &&Resident| {
            let app = resident.pm2.as_ref();
            daemons.contains(&resident.parent_pid) && app.is_some_and(|app| app.is_cluster)
        };
        let workers: Vec<&Resident> = everybody.iter().copied().filter(is_worker).collect();
        let mut by_settings = workers.clone();
        by_settings.retain(|worker| {
            let app = worker.pm2.as_ref();
            app.is_some_and(|app| app.port == Some(port))
        });
        holders.retain(|holder| !holder.is_pm2_itself);
        holders.extend(match by_settings.is_empty() {
            true => workers,
            false => by_settings,
        });
    }
    if holders.is_empty() {
        return Err(CaptureError::not_found(format!(
            "no Node.js process listens on port {port} (as another user than the server's this \
             can't be seen: run nodespy as root)"
        )));
    }
    one_family(holders, &format!("port {port}"))
}

fn in_pm2<'a>(everybody: Vec<&'a Resident>, text: &str) -> Result<Vec<&'a Resident>, CaptureError> {
    let apps: Vec<&Resident> = everybody
        .into_iter()
        .filter(|resident| resident.pm2.is_some() && !resident.is_pm2_itself)
        .collect();
    let pick = |is_meant: &dyn Fn(&super::Pm2App) -> bool| -> Vec<&'a Resident> {
        let matching = apps.iter().copied();
        matching
            .filter(|resident| resident.pm2.as_ref().is_some_and(is_meant))
            .collect()
    };
    let mut left = pick(&|app| app.name == text);
    if left.is_empty()
        && let Ok(id) = text.parse::<u32>()
    {
        left = pick(&|app| app.id == id);
    }
    if !left.is_empty() {
        return one_family(left, text);
    }
    let mut names: Vec<String> = apps
        .iter()
        .map(|resident| nodespy_model::printable(resident.name()).into_owned())
        .collect();
    names.small_sort();
    names.dedup();
    Err(CaptureError::not_found(match names.is_empty() {
        true => "no app of pm2 runs on this machine (or its environment may not be read: run \
                 nodespy as root, or as the user of the app)"
            .to_owned(),
        false => format!(
            "pm2 has no app {text:?}; there are {}",
            list(names.into_iter())
        ),
    }))
}

fn called<'a>(everybody: Vec<&'a Resident>, text: &str) -> Result<Vec<&'a Resident>, CaptureError> {
    let by_name = |resident: &&Resident| resident.name() == text;
    let mut left: Vec<&Resident> = everybody.iter().copied().filter(by_name).collect();
    if left.is_empty() {
        let others = everybody.iter().copied();
        left = others.filter(|resident| resident.is_called(text)).collect();
    }
    if left.is_empty() {
        let mut names: Vec<String> = everybody
            .iter()
            .filter(|resident| !resident.is_pm2_itself)
            .map(|resident| nodespy_model::printable(resident.name()).into_owned())
            .collect();
        names.small_sort();
        names.dedup();
        return Err(CaptureError::not_found(match names.is_empty() {
            true => format!("{text:?} can't be found: no Node.js process runs there"),
            false => format!(
                "no Node.js process is called {text:?}; there are {} (to start a command write it \
                 after --)",
                list(names.into_iter())
            ),
        }));
    }
    one_family(left, text)
}

/// The processes, unless they are of several applications.
fn one_family<'a>(
    residents: Vec<&'a Resident>,
    text: &str,
) -> Result<Vec<&'a Resident>, CaptureError> {
    let first = residents.first().map(|resident| resident.family());
    if residents
        .iter()
        .all(|resident| Some(resident.family()) == first)
    {
        return Ok(residents);
    }
    let candidates = residents.iter().map(|resident| {
        let script = resident.script.as_deref().unwrap_or(&resident.app);
        let place = resident
            .place()
            .map(|place| format!(" in {place}"))
            .unwrap_or_default();
        let words = format!("{} ({script}){place}", resident.name());
        format!("-p {} {}", resident.pid, nodespy_model::printable(&words))
    });
    Err(CaptureError::ambiguous(format!(
        "{text:?} can be several applications: {}",
        list(candidates)
    )))
}

/// Some words in one line, not endlessly many.
pub(super) fn list(words: impl Iterator<Item = String>) -> String {
    // Names of containers and pods are anybody's.
    let mut words: Vec<String> = words
        .map(|word| nodespy_model::printable(&word).into_owned())
        .collect();
    let more = words.len().saturating_sub(MAX_LISTED);
    words.truncate(MAX_LISTED);
    if more > 0 {
        words.push(format!("{more} more"));
    }
    words.join(", ")
}

#[cfg(test)]
mod tests;
