%% Each store behaves like a map of maps, paging included.
-module(prop_vsns_store).
-include_lib("proper/include/proper.hrl").
-export([properties_test_/0]).

%% For EUnit.
properties_test_() ->
    [vsns_probe:property("process", 500, fun prop_process/0), vsns_probe:property("ets", 500, fun prop_ets/0),
     vsns_probe:property("mnesia", 100, fun prop_mnesia/0)].

spaces() -> [<<>>, <<"a">>, <<"b">>, <<"ab">>, <<255>>].
space() -> oneof(spaces()).
key() -> oneof([<<"a">>, <<"b">>, <<"aa">>, <<0>>, <<255>>, <<255, 255>>, non_empty(binary())]).

command() ->
    frequency([{6, {save, space(), key(), binary()}}, {2, {load, space(), key()}}, {2, {remove, space(), key()}},
               {2, {load_all, space(), oneof([<<>>, key()]), range(1, 6), range(64, 200)}},
               {1, {remove_all, space()}}, {1, count}]).

prop_process() -> like_a_map(process, "").
prop_ets() -> like_a_map(ets, "").
prop_mnesia() -> like_a_map(mnesia, vsns_probe:folder()).

like_a_map(Kind, Data) ->
    Store = vsns_store:module(Kind),
    Options = (vsns_probe:options())#{data := Data},
    ?FORALL(Commands, resize(60, list(command())),
        begin
            Opened = Store:open(Store:prepare(Options)),
            %% Mnesia's table is the same one each time.
            State = lists:foldl(fun(Space, S) -> element(2, Store:remove_all(Space, S)) end, Opened, spaces()),
            same(Commands, Store, State, #{})
        end).

same([], _, _, _) -> true;
same([Command | Rest], Store, State, Model) ->
    {Answer, Next} = store(Command, Store, State),
    {Expected, NextModel} = model(Command, Model),
    case Answer =:= Expected of
        true -> same(Rest, Store, Next, NextModel);
        false -> io:format(standard_error, "~p: ~p, expected ~p~n", [Command, Answer, Expected]), false
    end.

store({save, S, K, V}, Store, State) -> {ok, Store:save(S, K, V, State)};
store({load, S, K}, Store, State) -> {Store:load(S, K, State), State};
store({remove, S, K}, Store, State) -> Store:remove(S, K, State);
store({load_all, S, After, Limit, Bytes}, Store, State) -> {Store:load_all(S, After, Limit, Bytes, State), State};
store({remove_all, S}, Store, State) -> Store:remove_all(S, State);
store(count, Store, State) -> {Store:count(State), State}.

model({save, S, K, V}, M) ->
    {ok, M#{S => (maps:get(S, M, #{}))#{K => V}}};
model({load, S, K}, M) ->
    {case M of #{S := #{K := V}} -> {ok, V}; _ -> not_found end, M};
model({remove, S, K}, M) ->
    Names = maps:get(S, M, #{}),
    {case Names of #{K := _} -> 1; _ -> 0 end, M#{S => maps:remove(K, Names)}};
model({remove_all, S}, M) ->
    {map_size(maps:get(S, M, #{})), maps:remove(S, M)};
model(count, M) ->
    Sizes = [map_size(Names) || Names <- maps:values(M), map_size(Names) > 0],
    {{lists:sum(Sizes), length(Sizes)}, M};
model({load_all, S, After, Limit, Bytes}, M) ->
    All = [E || {K, _} = E <- lists:sort(maps:to_list(maps:get(S, M, #{}))), K > After],
    Page = fitting(lists:sublist(All, Limit), Bytes - 10, true),
    {{length(Page) < length(All), Page}, M}.

fitting([], _, _) -> [];
fitting([{K, V} = Entry | Rest], Left, First) ->
    case Left - 6 - byte_size(K) - byte_size(V) of
        Enough when Enough >= 0; First -> [Entry | fitting(Rest, Enough, false)];
        _ -> []
    end.
