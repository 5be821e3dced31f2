%% Every store by the same table, and what outlives the name server in each.
-module(vsns_store_tests).
-include_lib("eunit/include/eunit.hrl").

stores_test_() ->
    [{setup, fun() -> open(Kind) end, fun close/1,
      fun({Store, S}) -> {atom_to_list(Kind) ++ " " ++ Name, fun() -> Test(Store, S) end} end}
     || Kind <- [process, ets, mnesia],
        {Name, Test} <- [{"names", fun names/2}, {"spaces apart", fun spaces/2}, {"pages", fun pages/2},
                         {"bytes of a page", fun bytes/2}]].

open(Kind) ->
    Store = vsns_store:module(Kind),
    Data = case Kind of mnesia -> vsns_probe:folder(); _ -> "" end,
    {Store, Store:open(Store:prepare((vsns_probe:options())#{data := Data}))}.

close(_) ->
    _ = application:stop(mnesia),
    ok.

names(Store, S0) ->
    ?assertEqual(not_found, Store:load(<<"s">>, <<"k">>, S0)),
    S1 = Store:save(<<"s">>, <<"k">>, <<"1">>, S0),
    S2 = Store:save(<<"s">>, <<"k">>, <<"2">>, S1),
    ?assertEqual({ok, <<"2">>}, Store:load(<<"s">>, <<"k">>, S2)),
    ?assertEqual({1, 1}, Store:count(S2)),
    {1, S3} = Store:remove(<<"s">>, <<"k">>, S2),
    {0, S4} = Store:remove(<<"s">>, <<"k">>, S3),
    ?assertEqual({0, 0}, Store:count(S4)).

spaces(Store, S0) ->
    Spaces = [<<>>, <<"a">>, <<"aa">>, <<255, 255>>],
    S1 = lists:foldl(fun(Space, S) -> Store:save(Space, <<"k">>, Space, S) end, S0, Spaces),
    ?assertEqual({4, 4}, Store:count(S1)),
    {1, S2} = Store:remove_all(<<"a">>, S1),
    {0, S3} = Store:remove_all(<<"a">>, S2),
    ?assertEqual(not_found, Store:load(<<"a">>, <<"k">>, S3)),
    [?assertEqual({ok, Space}, Store:load(Space, <<"k">>, S3)) || Space <- Spaces -- [<<"a">>]].

pages(Store, S0) ->
    Keys = [<<N:16>> || N <- lists:seq(1, 25)],
    S1 = lists:foldl(fun(K, S) -> Store:save(<<"s">>, K, K, S) end, S0, lists:reverse(Keys)),
    S2 = Store:save(<<"t">>, <<"other">>, <<>>, S1),
    ?assertEqual({true, [{K, K} || K <- lists:sublist(Keys, 10)]}, Store:load_all(<<"s">>, <<>>, 10, 10000, S2)),
    ?assertEqual({false, [{K, K} || K <- lists:nthtail(20, Keys)]}, Store:load_all(<<"s">>, <<20:16>>, 5, 10000, S2)),
    ?assertEqual({false, [{K, K} || K <- Keys]}, Store:load_all(<<"s">>, <<0>>, 25, 10000, S2)),
    ?assertEqual({false, []}, Store:load_all(<<"s">>, <<25:16>>, 5, 10000, S2)),
    ?assertEqual({false, []}, Store:load_all(<<"none">>, <<>>, 5, 10000, S2)).

bytes(Store, S0) ->
    Value = binary:copy(<<"v">>, 100),
    S1 = lists:foldl(fun(K, S) -> Store:save(<<"s">>, K, Value, S) end, S0, [<<"a">>, <<"b">>, <<"c">>]),
    ?assertMatch({true, [{<<"a">>, _}]}, Store:load_all(<<"s">>, <<>>, 9, 64, S1)),
    ?assertMatch({true, [{<<"a">>, _}, {<<"b">>, _}]}, Store:load_all(<<"s">>, <<>>, 9, 10 + 2 * 107, S1)),
    ?assertMatch({true, [{<<"a">>, _}]}, Store:load_all(<<"s">>, <<>>, 9, 10 + 2 * 107 - 1, S1)).
