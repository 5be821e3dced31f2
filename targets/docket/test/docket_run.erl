%% Runs all tests and ends the VM with 0 if all passed.
-module(docket_run).
-export([all/0]).

all() ->
    logger:set_primary_config(level, none),
    ok = docket_probe:at_home(),
    Modules = lists:sort([list_to_atom(filename:basename(F, ".erl")) || F <- filelib:wildcard("test/*.erl")]),
    Named = fun(Suffix) -> [M || M <- Modules, lists:suffix(Suffix, atom_to_list(M))] end,
    Properties = [{M, F} || M <- Modules, lists:prefix("prop_", atom_to_list(M)),
                            {F, 0} <- M:module_info(exports), lists:prefix("prop_", atom_to_list(F))],
    UnitOk = eunit:test(Named("_tests"), []) =:= ok,
    Failed = [P || P <- Properties, not property(P)],
    io:format("  ~b of ~b properties passed.~n", [length(Properties) - length(Failed), length(Properties)]),
    SuitesOk = suites(Named("_SUITE")),
    _ = file:del_dir_r("_build/tmp"),
    Ok = UnitOk andalso Failed =:= [] andalso SuitesOk,
    io:format("~s~n", [case Ok of true -> "PASS"; false -> "FAIL" end]),
    halt(case Ok of true -> 0; false -> 1 end).

property({Module, Name}) ->
    Passed = proper:quickcheck(Module:Name(), [{numtests, Module:numtests(Name)}, quiet]),
    _ = [io:format("  counterexample: ~p~n", [proper:counterexample()]) || Passed =/= true],
    io:format("  ~s ~s:~s~n", [case Passed of true -> "ok  "; _ -> "FAIL" end, Module, Name]),
    Passed =:= true.

%% Its own words go to _build/ct/index.html; here is said what failed.
suites(Suites) ->
    ok = filelib:ensure_path("_build/ct"),
    %% Members are found at paths from here, and suites run elsewhere.
    Here = docket_probe:home(),
    [true = code:add_patha(filename:absname(Folder)) || Folder <- ["ebin", "_build/test"]],
    Result = ct:run_test([{dir, "_build/test"}, {suite, Suites}, {auto_compile, false}, {logdir, "_build/ct"},
                          {verbosity, 0}, {ct_hooks, [docket_told]}]),
    ok = file:set_cwd(Here),
    case Result of
        {Ok, 0, {Skipped, 0}} -> io:format("  ~b cases passed, ~b skipped.~n", [Ok, Skipped]), true;
        Other -> io:format("  cases: ~p~n", [Other]), false
    end.
