//! Persistent memory as `ndctl` and `ipmctl` list it, and commands that make file systems on it.
//! Pure: the caller runs the programs.

use serde_json::{Deserializer, Value};

/// Persistent memory of a machine.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PersistentMemory {
    /// Regions of memory modules. Interleaved modules form one region.
    pub regions: Vec<NvdimmRegion>,
    /// Namespaces; each is a device on a region.
    pub namespaces: Vec<NvdimmNamespace>,
    /// Names of the memory modules.
    pub modules: Vec<String>,
    /// Whether `ipmctl` manages any modules.
    pub is_managed: bool,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct NvdimmRegion {
    /// Name, such as `region0`.
    pub name: String,
    pub size_bytes: u64,
    /// Number of bytes that belong to no namespace.
    pub available_bytes: u64,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct NvdimmNamespace {
    /// Name, such as `namespace0.0`.
    pub name: String,
    /// Mode: `fsdax`, `devdax`, `sector`, `raw`.
    pub mode: String,
    pub size_bytes: u64,
    /// Device such as `pmem0`, if it is a block device.
    pub device: Option<String>,
}

impl PersistentMemory {
    /// Parses the output of `ndctl list -RND` and `ipmctl show -dimm`. The form of `ndctl`'s output
    /// depends on the hardware: nothing, an object, a list, or several objects. A level may be
    /// inside or beside the level above it.
    #[must_use]
    pub fn parse(ndctl: &str, ipmctl: &str) -> Self {
        let mut found = Self { is_managed: has_modules(ipmctl), ..Self::default() };
        for value in Deserializer::from_str(ndctl).into_iter::<Value>().map_while(Result::ok) {
            found.add(&value);
        }
        found
    }

    /// Whether the machine has persistent memory.
    #[must_use]
    pub fn is_there(&self) -> bool {
        self.is_managed || !self.regions.is_empty() || !self.namespaces.is_empty() || !self.modules.is_empty()
    }

    fn add(&mut self, value: &Value) {
        match value {
            Value::Array(values) => values.iter().for_each(|value| self.add(value)),
            Value::Object(fields) => {
                let name = fields.get("dev").and_then(Value::as_str).unwrap_or_default();
                let [size_bytes, available_bytes] =
                    ["size", "available_size"].map(|key| fields.get(key).and_then(bytes).unwrap_or(0));
                if name.starts_with("region") {
                    self.regions.push(NvdimmRegion { name: name.to_owned(), size_bytes, available_bytes });
                } else if name.starts_with("namespace") {
                    let [mode, device] =
                        ["mode", "blockdev"].map(|key| fields.get(key).and_then(Value::as_str).map(str::to_owned));
                    let mode = mode.unwrap_or_default();
                    self.namespaces.push(NvdimmNamespace { name: name.to_owned(), mode, size_bytes, device });
                } else if name.starts_with("nmem") {
                    self.modules.push(name.to_owned());
                }
                fields.values().filter(|value| value.is_array() || value.is_object()).for_each(|value| self.add(value));
            }
            _ => {}
        }
    }

    /// Returns the possible setups, each with its commands in order. Each setup destroys the data
    /// on the modules.
    #[must_use]
    pub fn ways(&self) -> Vec<(&'static str, Vec<String>)> {
        let after_restart = file_systems(self.regions.iter().map(|region| region.name.as_str()));
        if self.is_managed {
            let memory_mode = "memory mode, all of it: the modules are the memory, and nothing persists";
            let ways = [
                ("App Direct, all of it", "PersistentMemoryType=AppDirect", after_restart.as_slice()),
                ("App Direct, half of it", "MemoryMode=50 PersistentMemoryType=AppDirect", &after_restart),
                (memory_mode, "MemoryMode=100", &[]),
            ];
            let ways = ways.map(|(what, goal, then)| {
                let mut commands = vec![format!("ipmctl create -goal {goal}"), "systemctl reboot".to_owned()];
                commands.extend_from_slice(then);
                (what, commands)
            });
            return ways.to_vec();
        }
        if !self.has_room() {
            return Vec::new();
        }
        let mut labels = vec!["ndctl disable-region all".to_owned()];
        labels.extend(self.modules.iter().map(|module| format!("ndctl init-labels --force {module}")));
        labels.push("ndctl enable-region all".to_owned());
        let whole = labels.iter().cloned().chain(after_restart).collect();
        let half = self.regions.iter().map(half).chain(mounts(self.regions.len()));
        vec![
            ("App Direct, all of it", whole),
            ("App Direct, half of it, the rest left free", labels.into_iter().chain(half).collect()),
        ]
    }

    /// Whether a region has free space. On a region without labels, the kernel itself makes a raw
    /// namespace, which does not support direct access. Such a region counts as free.
    #[must_use]
    pub fn has_room(&self) -> bool {
        let only_raw = !self.namespaces.is_empty() && self.namespaces.iter().all(|namespace| namespace.mode == "raw");
        self.regions.iter().any(|region| region.available_bytes > 0 || only_raw)
    }
}

/// Returns the commands that make a namespace over each whole region, and a file system on each
/// namespace.
fn file_systems<'a>(regions: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut commands: Vec<String> =
        regions.map(|region| format!("ndctl create-namespace --mode=fsdax --region={region}")).collect();
    if commands.is_empty() {
        commands.push("ndctl create-namespace --mode=fsdax".to_owned());
    }
    let count = commands.len();
    commands.extend(mounts(count));
    commands
}

/// Returns the command for a namespace of half a region, rounded down to a multiple of 16 MiB, as
/// namespaces require.
fn half(region: &NvdimmRegion) -> String {
    const STEP: u64 = 16 << 20;
    let bytes = (region.size_bytes / 2) / STEP * STEP;
    format!("ndctl create-namespace --mode=fsdax --region={} --size={bytes}", region.name)
}

fn mounts(count: usize) -> Vec<String> {
    let mut commands = Vec::new();
    for number in 0..count {
        commands.push(format!("mkfs.ext4 -b 4096 /dev/pmem{number}"));
        commands.push(format!("mkdir -p /mnt/pmem{number}"));
        commands.push(format!("mount -o dax /dev/pmem{number} /mnt/pmem{number}"));
    }
    commands
}

/// Whether `ipmctl show -dimm` lists a module. The row of a module begins with a hexadecimal
/// handle.
fn has_modules(ipmctl: &str) -> bool {
    ipmctl.lines().any(|line| line.trim_start_matches([' ', '|']).starts_with("0x"))
}

/// Parses a size: a number, a number in quotes, or a text such as `"254.00 MiB (266.34 MB)"`.
fn bytes(value: &Value) -> Option<u64> {
    if let Some(number) = value.as_u64() {
        return Some(number);
    }
    let text = value.as_str()?.split('(').next()?.trim();
    if let Ok(number) = text.parse() {
        return Some(number);
    }
    let (number, unit) = text.split_once(' ')?;
    let factor = ["KiB", "MiB", "GiB", "TiB"].iter().position(|known| *known == unit)?;
    let factor = f64::from(1024_u32).powi(i32::try_from(factor).ok()? + 1);
    Some((number.parse::<f64>().ok()? * factor).round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn region(size_bytes: u64, available_bytes: u64) -> NvdimmRegion {
        NvdimmRegion { name: "region0".to_owned(), size_bytes, available_bytes }
    }

    #[test]
    fn every_shape_of_the_list_is_read() {
        let namespace = NvdimmNamespace {
            name: "namespace0.0".to_owned(),
            mode: "fsdax".to_owned(),
            size_bytes: 264_241_152,
            device: Some("pmem0".to_owned()),
        };
        let one = r#"{"dev":"namespace0.0","mode":"fsdax","size":264241152,"blockdev":"pmem0"}"#;
        for said in [
            one.to_owned(),
            format!("[{one}]"),
            format!(r#"{{"provider":"e820","dev":"ndbus0","namespaces":[{one}]}} {{"dev":"ndbus1"}}"#),
            format!(r#"[{{"dev":"ndbus0","regions":[{{"dev":"regionless","namespaces":[{one}]}}]}}]"#),
            one.replace("264241152", "\"252.00 MiB (264.24 MB)\""),
            one.replace("264241152", "\"264241152\""),
        ] {
            assert_eq!(PersistentMemory::parse(&said, "").namespaces, std::slice::from_ref(&namespace), "{said}");
        }
        let beside = format!(
            r#"{{"dimms":[{{"dev":"nmem0","id":"8680-57341200"}}],"regions":[{{"dev":"region0","size":"270532608","available_size":0,"type":"pmem","namespaces":[{one}]}}]}}"#
        );
        let found = PersistentMemory::parse(&beside, "");
        assert_eq!((found.regions, found.modules), (vec![region(270_532_608, 0)], vec!["nmem0".to_owned()]));
        for nothing in ["", "\n", "null", "not JSON"] {
            assert!(!PersistentMemory::parse(nothing, "").is_there());
        }
    }

    #[test]
    fn free_space_can_become_file_systems() {
        let said = r#"[{"dev":"region0","size":4294967296,"available_size":4294967296,"type":"pmem"},{"dev":"nmem0"}]"#;
        let ways = PersistentMemory::parse(said, "").ways();
        assert_eq!(
            ways[0].1,
            [
                "ndctl disable-region all",
                "ndctl init-labels --force nmem0",
                "ndctl enable-region all",
                "ndctl create-namespace --mode=fsdax --region=region0",
                "mkfs.ext4 -b 4096 /dev/pmem0",
                "mkdir -p /mnt/pmem0",
                "mount -o dax /dev/pmem0 /mnt/pmem0",
            ]
        );
        assert_eq!(ways[1].1[3], "ndctl create-namespace --mode=fsdax --region=region0 --size=2147483648");
        assert!(
            PersistentMemory::parse(&said.replace("\"available_size\":4294967296", "\"available_size\":0"), "")
                .ways()
                .is_empty()
        );
    }

    /// Regression test: on an emulated NVDIMM without labels, the doctor proposed to mount the raw
    /// namespace.
    #[test]
    fn a_raw_namespace_can_become_file_systems() {
        let said = r#"{"dimms":[{"dev":"nmem0"}],"regions":[{"dev":"region0","size":1073741824,"available_size":0,"type":"pmem",
            "namespaces":[{"dev":"namespace0.0","mode":"raw","size":1073741824,"blockdev":"pmem0"}]}]}"#;
        let ways = PersistentMemory::parse(said, "").ways();
        assert_eq!(ways[0].1[1], "ndctl init-labels --force nmem0");
        assert_eq!(ways[1].1[3], "ndctl create-namespace --mode=fsdax --region=region0 --size=536870912");
        assert!(PersistentMemory::parse(&said.replace("raw", "fsdax"), "").ways().is_empty());
    }

    #[test]
    fn modules_that_ipmctl_manages_can_be_memory_too() {
        let table = " DimmID | Capacity    | LockState\n==================\n 0x0001 | 126.375 GiB | Disabled\n";
        let ways = PersistentMemory::parse("", table).ways();
        let firsts: Vec<&str> = ways.iter().map(|(_, commands)| commands[0].as_str()).collect();
        assert_eq!(
            firsts,
            [
                "ipmctl create -goal PersistentMemoryType=AppDirect",
                "ipmctl create -goal MemoryMode=50 PersistentMemoryType=AppDirect",
                "ipmctl create -goal MemoryMode=100",
            ]
        );
        assert!(ways[0].1.iter().any(|command| command == "mount -o dax /dev/pmem0 /mnt/pmem0"));
        assert!(!PersistentMemory::parse("", "No DIMMs in the system.").is_there());
    }
}
