//! Scripts that fail while the load runs.

use crate::sandbox::Sandbox;

#[test]
fn a_failing_script_is_always_reported() {
    let sandbox = Sandbox::new();
    sandbox.file("s.lua", "function boom(t)\n    error(\"boom\")\nend\n");
    let file = sandbox.file(
        "scripted.toml",
        "title = \"t\"\nasks = \"a\"\n[target]\nuse = \"echo\"\n[load]\nagents = 4\ntime = \"20s\"\nscript = \"s.lua\"\n\
         [[load.cycle]]\ncall = \"get\"\nwith = { path = \"/{lua.boom}\" }\n",
    );
    // It varies from run to run which thread ends first.
    for _ in 0..10 {
        sandbox.run(&[&file]).exits(2).says(&["s.lua:2: boom"]);
    }
}
