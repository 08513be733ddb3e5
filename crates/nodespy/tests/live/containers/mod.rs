//! Real containers: a Docker engine of the tests' own, podman beside it, and what people run in them.
//!
//! The engine is started and stopped by each test (`tools/containers.sh`), so nothing is left behind
//! whichever test runner is used. The image comes from no registry. Its node is another version than
//! the machine's at the same path, so a name taken from the wrong file would be a wrong name.

mod containerd;
mod docker;
mod engine;
mod from_inside;
mod hostile;
mod pm2;
mod podman;
