%% The application without the command line: its environment, right and wrong, and its end.
-module(docket_app_tests).
-include_lib("eunit/include/eunit.hrl").

starts_by_itself_test_() ->
    {setup, fun() -> put_env(#{copies => ram, http_port => docket_probe:free_port()}) end, fun restore/1,
     {timeout, 60, fun() ->
        Member = #{address => "127.0.0.1", http => docket_options:get(http_port)},
        %% Twice: nothing of the first start is in the way of the second.
        [begin
            {ok, _} = application:ensure_all_started(docket),
            docket_probe:until(fun() -> docket_probe:status(Member, "/health/ready") =:= 200 end),
            {201, _, _} = docket_probe:ask(Member, "POST", "/cases/a", [], <<"{\"party\":\"P\"}">>),
            {200, _, Facts} = docket_probe:get(Member, "/inspect"),
            {struct, Known} = mochijson2:decode(Facts),
            ?assertMatch({_, [{struct, [_, {_, true}, {_, true}, {_, true}]}]}, lists:keyfind(<<"members">>, 1, Known)),
            ?assertMatch([_, _, _], supervisor:which_children(docket_sup)),
            [?assertMatch({status, _, _, _}, sys:get_status(Pid)) || {_, Pid, _, _} <- supervisor:which_children(docket_sup)],
            stop()
         end || _ <- [1, 2]]
     end}}.

wrong_environment_test_() ->
    [{setup, fun() -> put_env(Given) end, fun restore/1, fun() ->
        {error, {docket, {Why, _}}} = application:ensure_all_started(docket),
        ?assertEqual(Text, Why)
     end} || {Given, Text} <- [
        {#{copies => disc}, "--copies disc needs --data FOLDER"},
        {#{copies => ram, write => dirty}, "write: expected transaction, sync_transaction, async_dirty, sync_dirty, got dirty"},
        {#{copies => ram, members => [{127, 0, 0, 1}, {127, 0, 0, 2}]},
         "this node is called nonode@nohost; among other members it has to be docket@127.0.0.1"}]].

put_env(Given) ->
    ok = logger:set_primary_config(level, none),
    _ = application:load(docket),
    Before = application:get_all_env(docket),
    maps:foreach(fun(Name, Value) -> ok = application:set_env(docket, Name, Value) end, Given),
    Before.

restore(Before) ->
    stop(),
    [ok = application:set_env(docket, Name, Value) || {Name, Value} <- Before].

stop() ->
    _ = application:stop(docket),
    _ = application:stop(mnesia).
