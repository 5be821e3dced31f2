//! Hosts, targets, faults and probes.
