//! Real containers: a Docker engine of the tests' own, podman beside it, and what people run in them.
//!
//! One engine (`tools/containers.sh`) serves all tests of a process, one after the other, and ends with
//! it. The image comes from no registry. Its node is another version than
//! the machine's at the same path, so a name taken from the wrong file would be a wrong name.

mod compose;
mod containerd;
mod docker;
mod engine;
mod fleet;
mod from_inside;
mod hostile;
mod image;
mod pm2;
mod podman;
