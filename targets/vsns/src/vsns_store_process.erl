%% Names in the name server's own heap: they die with it, as in the article.
%%
%% A map of spaces, each a balanced tree, so that one space's names come in order and are dropped in one step. It
%% must keep nothing outside the state it returns: no table, no process dictionary.
-module(vsns_store_process).
-behaviour(vsns_store).

-export([prepare/1, open/1, save/4, load/3, remove/3, load_all/5, remove_all/2, count/1, needs_sync/1, sync/1]).

-type tree() :: gb_trees:tree(vsns_frame:key(), vsns_frame:value()).
-type state() :: {Names :: non_neg_integer(), #{vsns_frame:space() => tree()}}.

%% @doc Nothing outlives the name server.
-spec prepare(vsns_options:options()) -> none.
prepare(_) -> none.

%% @doc Empty, each time.
-spec open(none) -> state().
open(none) -> {0, #{}}.

%% @doc Saves one name.
-spec save(vsns_frame:space(), vsns_frame:key(), vsns_frame:value(), state()) -> state().
save(Space, Key, Value, {N, Spaces}) ->
    Tree = maps:get(Space, Spaces, gb_trees:empty()),
    Before = gb_trees:size(Tree),
    Saved = gb_trees:enter(Key, Value, Tree),
    {N + gb_trees:size(Saved) - Before, Spaces#{Space => Saved}}.

%% @doc Loads one name.
-spec load(vsns_frame:space(), vsns_frame:key(), state()) -> {ok, vsns_frame:value()} | not_found.
load(Space, Key, {_, Spaces}) ->
    case Spaces of
        #{Space := Tree} ->
            case gb_trees:lookup(Key, Tree) of
                {value, Value} -> {ok, Value};
                none -> not_found
            end;
        _ ->
            not_found
    end.

%% @doc Removes one name; a space without names is forgotten.
-spec remove(vsns_frame:space(), vsns_frame:key(), state()) -> {0 | 1, state()}.
remove(Space, Key, {N, Spaces} = State) ->
    case Spaces of
        #{Space := Tree} ->
            case gb_trees:take_any(Key, Tree) of
                error -> {0, State};
                {_, Left} -> {1, {N - 1, put_back(Space, Left, Spaces)}}
            end;
        _ ->
            {0, State}
    end.

-spec put_back(vsns_frame:space(), tree(), #{vsns_frame:space() => tree()}) -> #{vsns_frame:space() => tree()}.
put_back(Space, Tree, Spaces) ->
    case gb_trees:is_empty(Tree) of
        true -> maps:remove(Space, Spaces);
        false -> Spaces#{Space := Tree}
    end.

%% @doc One page of a space.
-spec load_all(vsns_frame:space(), binary(), pos_integer(), pos_integer(), state()) ->
    {boolean(), [{vsns_frame:key(), vsns_frame:value()}]}.
load_all(Space, After, Limit, Bytes, {_, Spaces}) ->
    Tree = maps:get(Space, Spaces, gb_trees:empty()),
    Step = fun(Iterator) -> step(After, Iterator) end,
    vsns_store:page(Step, gb_trees:iterator_from(After, Tree), Limit, Bytes).

%% The iterator starts at After itself; the page starts behind it.
-spec step(binary(), gb_trees:iter(vsns_frame:key(), vsns_frame:value())) ->
    none | {vsns_frame:key(), vsns_frame:value(), gb_trees:iter(vsns_frame:key(), vsns_frame:value())}.
step(After, Iterator) ->
    case gb_trees:next(Iterator) of
        {After, _, Next} -> step(After, Next);
        Other -> Other
    end.

%% @doc Drops a space.
-spec remove_all(vsns_frame:space(), state()) -> {non_neg_integer(), state()}.
remove_all(Space, {N, Spaces} = State) ->
    case maps:take(Space, Spaces) of
        error -> {0, State};
        {Tree, Left} -> {gb_trees:size(Tree), {N - gb_trees:size(Tree), Left}}
    end.

%% @doc Names and spaces.
-spec count(state()) -> {non_neg_integer(), non_neg_integer()}.
count({N, Spaces}) -> {N, map_size(Spaces)}.

%% @doc There is no disk to wait for.
-spec needs_sync(state()) -> false.
needs_sync(_) -> false.

%% @doc There is no disk to wait for.
-spec sync(state()) -> ok.
sync(_) -> ok.
