//! Settings of node classes, each with numbers worked out by hand.
