//! Filters in the SDK's form.

use aws_sdk_ec2::types::Filter;
use nodeless_launch::node_class::query::Query;

pub(super) fn sdk_filters(query: &Query) -> Vec<Filter> {
    query.iter().map(|(name, values)| Filter::builder().name(name).set_values(Some(values.clone())).build()).collect()
}
