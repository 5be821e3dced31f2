%% Runs all tests and ends the VM with 0 if all passed.
-module(vsns_run).
-export([all/0]).

all() ->
    logger:set_primary_config(level, none),
    Modules = [list_to_atom(filename:basename(F, ".erl")) || F <- filelib:wildcard("test/*.erl")],
    Unit = [M || M <- lists:sort(Modules), lists:suffix("_tests", atom_to_list(M))],
    Properties = [{M, F} || M <- lists:sort(Modules), lists:prefix("prop_", atom_to_list(M)),
                            {F, 0} <- M:module_info(exports), lists:prefix("prop_", atom_to_list(F))],
    UnitOk = eunit:test(Unit, []) =:= ok,
    Failed = [P || P <- Properties, not property(P)],
    _ = file:del_dir_r("_build/tmp"),
    io:format("  ~b of ~b properties passed.~n",
              [length(Properties) - length(Failed), length(Properties)]),
    io:format("~s~n", [case UnitOk andalso Failed =:= [] of true -> "PASS"; false -> "FAIL" end]),
    halt(case UnitOk andalso Failed =:= [] of true -> 0; false -> 1 end).

property({Module, Name}) ->
    Passed = proper:quickcheck(Module:Name(), [{numtests, Module:numtests(Name)}, quiet]),
    _ = [io:format("  counterexample: ~p~n", [proper:counterexample()]) || Passed =/= true],
    io:format("  ~s ~s:~s~n", [case Passed of true -> "ok  "; _ -> "FAIL" end, Module, Name]),
    Passed =:= true.
