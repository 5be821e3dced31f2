%% Log events come out as one line each.
-module(vsns_log_tests).
-include_lib("eunit/include/eunit.hrl").

line(Message) ->
    Event = #{level => error, msg => Message, meta => #{time => 0}},
    lists:flatten(unicode:characters_to_list(vsns_log:format(Event, #{}))).

one_line_test_() ->
    Supervisor = [{supervisor, {local, vsns_store_sup}}, {errorContext, child_terminated}, {reason, oops},
                  {offender, [{pid, self()}, {id, vsns_name_server}]}],
    [?_assertEqual("1970-01-01T00:00:00.000000Z error a b\n", line({string, "a\n b"})),
     ?_assertEqual("1970-01-01T00:00:00.000000Z error name server down: oops\n",
                   line({report, #{label => {gen_server, terminate}, name => vsns_name_server, reason => oops}})),
     ?_assertEqual("1970-01-01T00:00:00.000000Z error name server down: oops (m:f/2, line 7)\n",
                   line({report, #{label => {gen_server, terminate}, name => vsns_name_server,
                                   reason => {oops, [{m, f, 2, [{file, "m.erl"}, {line, 7}]}]}}})),
     ?_assertEqual("1970-01-01T00:00:00.000000Z error supervisor vsns_store_sup: vsns_name_server ended: oops; "
                   "restarting it\n",
                   line({report, #{label => {supervisor, child_terminated}, report => Supervisor}})),
     ?_assert(length(line({report, #{label => {gen_server, terminate}, name => x,
                                     reason => lists:seq(1000, 9000)}})) < 500)].

crash_reports_are_dropped_test() ->
    ?assertEqual(stop, vsns_log:wanted(#{level => error, msg => {report, #{label => {proc_lib, crash}}}, meta => #{}}, [])),
    ?assertEqual(ignore, vsns_log:wanted(#{level => error, msg => {string, "x"}, meta => #{}}, [])).
