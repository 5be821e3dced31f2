%% The command line, right and wrong.
-module(docket_options_tests).
-include_lib("eunit/include/eunit.hrl").

parse(Text) -> docket_options:parse(string:lexemes(Text, " ")).

good_test() ->
    {ok, Options} = parse("--host 127.0.0.3 --members 127.0.0.2,127.0.0.3 --copies ram --http-port 1 --write async_dirty --serial true"),
    ?assertMatch(#{host := {127, 0, 0, 3}, members := [{127, 0, 0, 2}, {127, 0, 0, 3}], copies := ram, http_port := 1,
                   write := async_dirty, read := transaction, serial := true, admission := 0}, Options).

alone_test() ->
    ?assertMatch({ok, #{members := [{127, 0, 0, 1}]}}, parse("--data x")).

work_may_have_decimals_test() ->
    ?assertMatch({ok, #{work_ms := 3}}, parse("--data x --work-ms 3")),
    ?assertMatch({ok, #{work_ms := 0.5}}, parse("--data x --work-ms 0.5")).

bad_test_() ->
    [?_assertEqual({error, Why}, parse(Text)) || {Text, Why} <- [
        {"--write dirty --data x",
         "--write: expected transaction, sync_transaction, async_dirty, sync_dirty, got \"dirty\""},
        {"--admission -1", "--admission: expected a whole number from 0 to 1000000, got \"-1\""},
        {"--admission 0.5", "--admission: expected a whole number from 0 to 1000000, got \"0.5\""},
        {"--work-ms 3ms", "--work-ms: expected a number from 0 to 60000, got \"3ms\""},
        {"--host here", "--host: expected an IPv4 address, got \"here\""},
        {"--members 127.0.0.1,", "--members: expected IPv4 addresses, separated by commas, got \"127.0.0.1,\""},
        {"--host 127.0.0.9 --members 127.0.0.2,127.0.0.3", "--host: 127.0.0.9 is not one of --members 127.0.0.2,127.0.0.3"},
        {"--data x --members 127.0.0.1,127.0.0.1", "--members: 127.0.0.1 is in it twice"},
        {"--copies disc", "--copies disc needs --data FOLDER"},
        {"--nope 1", "unknown option --nope"},
        {"--read", "--read needs a value"},
        {"word", "not an option: word"}]].

too_many_test() ->
    Members = lists:append(lists:join(",", ["127.0.0." ++ integer_to_list(N) || N <- lists:seq(1, 33)])),
    ?assertEqual({error, "--members: 33 of them, and at most 32 can serve together"}, parse("--data x --members " ++ Members)).

%% Plimsoll hands over exactly these.
target_test() ->
    {ok, Text} = file:read_file("target.toml"),
    {match, Names} = re:run(Text, "\"--([a-z-]+)\"", [global, {capture, all_but_first, list}]),
    Member = [Name || [Name] <- Names, not lists:member(Name, ["kind", "port", "member-port"])],
    Known = [Name || {Name, _} <- application:get_all_env(docket)],
    [?assert(lists:member(list_to_atom(lists:flatten(string:replace(Name, "-", "_", all))), Known), Name) || Name <- Member].
