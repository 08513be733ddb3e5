//! Without descriptors left, a server waits for one instead of burning a CPU. Alone in its process: it limits that.

use std::io::Read;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use nodespy_http::{accept, stop_accepting};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::time::{ClockId, clock_gettime};

fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

#[test]
fn a_server_without_descriptors_does_not_spin() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let clients: Vec<TcpStream> = (0..20)
        .map(|_| TcpStream::connect(address).unwrap())
        .collect();
    let before = getrlimit(Resource::Nofile);
    // The limit is on the numbers of descriptors, of which the process may have been given any.
    let is_free =
        |number: &u64| std::fs::symlink_metadata(format!("/proc/self/fd/{number}")).is_err();
    // Two for each connection that is taken.
    let last_free = (0..).filter(is_free).nth(3).unwrap();
    let few = Rlimit {
        current: Some(last_free + 1),
        ..before
    };
    setrlimit(Resource::Nofile, few).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            accept(&listener, |mut connection, _| {
                connection.read_to_end(&mut Vec::new()).map(drop)
            });
        });
        // Connections are pending that can't be accepted.
        std::thread::sleep(Duration::from_millis(200));
        let (started, cpu) = (Instant::now(), cpu_seconds());
        std::thread::sleep(Duration::from_secs(1));
        let share = (cpu_seconds() - cpu) / started.elapsed().as_secs_f64();
        setrlimit(Resource::Nofile, before).unwrap();
        let mut last = clients.last().unwrap();
        last.set_nonblocking(true).unwrap();
        let read = last.read(&mut [0]);
        drop(clients);
        // Before anything that may fail: the thread that accepts is waited for.
        stop_accepting(&listener).unwrap();
        let waits = read.map_err(|error| error.kind());
        assert_eq!(waits, Err(std::io::ErrorKind::WouldBlock));
        assert!(share < 0.3, "{share}");
    });
}
