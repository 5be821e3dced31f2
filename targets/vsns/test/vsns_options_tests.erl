%% Command lines: defaults, limits, and what is refused.
-module(vsns_options_tests).
-include_lib("eunit/include/eunit.hrl").

defaults_test() ->
    ?assertEqual(vsns_options:environment(), vsns_options:parse([])).

wrong_environment_test() ->
    _ = application:load(vsns),
    ok = application:set_env(vsns, state, disk),
    ?assertEqual({error, "state: expected process, ets, mnesia, got disk"}, vsns_options:environment()),
    ok = application:unload(vsns).

all_test() ->
    {ok, Options} = vsns_options:parse(
        ["--port", "5000", "--inner-port", "5001", "--host", "0.0.0.0", "--data", "/d", "--state", "mnesia",
         "--sync", "false", "--coupling", "isolated", "--hub", "bounded", "--hub-tries", "7", "--hub_wait_ms", "8",
         "--schedulers", "2", "--frame-limit", "100", "--connections", "9", "--restarts", "0", "--restart-pause-ms", "7",
         "--max-processes", "1024", "--max-ports", "1025", "--open-files", "1026", "--socket-buffers", "1027"]),
    ?assertEqual(#{port => 5000, inner_port => 5001, host => {0, 0, 0, 0}, data => "/d", state => mnesia, sync => false,
                   coupling => isolated, hub => bounded, hub_tries => 7, hub_wait_ms => 8, schedulers => 2,
                   frame_limit => 100, connections => 9, restarts => 0, restart_pause_ms => 7, max_processes => 1024, max_ports => 1025,
                   open_files => 1026, socket_buffers => 1027}, Options).

wrong_test_() ->
    [?_assertEqual({error, Text}, vsns_options:parse(Arguments)) ||
        {Text, Arguments} <- [
            {"unknown option --prot", ["--prot", "1"]},
            {"--port needs a value", ["--port"]},
            {"not an option: port", ["port", "1"]},
            {"--port: expected a whole number from 0 to 65535, got \"x\"", ["--port", "x"]},
            {"--port: expected a whole number from 0 to 65535, got \"70000\"", ["--port", "70000"]},
            {"--state: expected process, ets, mnesia, got \"disk\"", ["--state", "disk"]},
            {"--host: expected an IP address, got \"nowhere\"", ["--host", "nowhere"]},
            {"--state mnesia needs --data FOLDER", ["--state", "mnesia"]}]].
