//! Questions to a store and their answers, whoever asks: the page, a program, a command.

mod instances;
mod marks;
mod profile;
mod regressions;
mod requests;
mod sampling;
mod selected;
mod series;
mod services;
mod size_factors;

use nodespy_analysis::CompareError;
use nodespy_store::StoreError;

pub use instances::{InstancesQuery, Odd, SeenInstance, SeenInstances, instances, instances_json};
pub use marks::{DEPLOYMENT_EVENT, Mark, mark_deployment};
pub use profile::profile_of_selection;
pub use regressions::{
    Deployment, Exposure, RegressionOptions, RequestCost, Slower, keep_lasting, regressions,
    regressions_json,
};
pub(crate) use regressions::{link, regression_json};
pub use selected::Selected;
pub(crate) use selected::{range, seconds};
pub use series::{SeriesQuery, series_json};
pub use services::{Instance, Service, ServicesQuery, Version, services, services_json};

/// The label that names an instance.
const INSTANCE: &str = "instance";

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum QueryError {
    /// The question makes no sense.
    #[error("{0}")]
    Bad(String),
    /// There is nothing of what was asked for.
    #[error("{0}")]
    NotFound(String),
    /// The store could not answer.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Versions can't be compared.
    #[error(transparent)]
    Compare(#[from] CompareError),
    /// Nothing is left of what is shown.
    #[error(transparent)]
    Filter(#[from] nodespy_analysis::FilterError),
    /// The answer could not be written.
    #[error(transparent)]
    Write(#[from] nodespy_outputs::WriteError),
}
