//! Settings of the kernel that are known to change what is measured. It must not say how.

use std::collections::BTreeMap;

use super::Root;

const SYSCTLS: [&str; 26] = [
    "fs.epoll.max_user_watches",
    "fs.file-max",
    "kernel.numa_balancing",
    "kernel.pid_max",
    "kernel.randomize_va_space",
    "kernel.sched_autogroup_enabled",
    "kernel.sched_rt_runtime_us",
    "kernel.threads-max",
    "kernel.timer_migration",
    "net.core.busy_poll",
    "net.core.default_qdisc",
    "net.core.netdev_max_backlog",
    "net.core.rmem_default",
    "net.core.rmem_max",
    "net.core.wmem_default",
    "net.core.wmem_max",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_max_syn_backlog",
    "net.ipv4.tcp_moderate_rcvbuf",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_slow_start_after_idle",
    "net.ipv4.tcp_wmem",
    "net.netfilter.nf_conntrack_max",
    "vm.dirty_background_ratio",
    "vm.dirty_ratio",
    "vm.overcommit_memory",
];

/// Those that stand in no field of their own.
pub fn sysctls(root: &Root) -> BTreeMap<String, String> {
    let value = |name: &str| {
        let text = root.text(&format!("proc/sys/{}", name.replace('.', "/")))?;
        Some(text.split_ascii_whitespace().collect::<Vec<_>>().join(" "))
    };
    SYSCTLS.iter().filter_map(|name| Some(((*name).to_owned(), value(name)?))).collect()
}

/// Those that have had a name of their own from the first version on.
pub fn more(root: &Root) -> BTreeMap<String, String> {
    const SETTINGS: [(&str, &str); 4] = [
        ("swappiness", "proc/sys/vm/swappiness"),
        ("tcp_congestion_control", "proc/sys/net/ipv4/tcp_congestion_control"),
        ("tcp_syncookies", "proc/sys/net/ipv4/tcp_syncookies"),
        ("transparent_hugepage", "sys/kernel/mm/transparent_hugepage/enabled"),
    ];
    SETTINGS.iter().filter_map(|(name, path)| Some(((*name).to_owned(), root.text(path)?))).collect()
}
