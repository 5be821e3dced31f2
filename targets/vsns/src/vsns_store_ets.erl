%% Names in an ETS table that the table owner owns: they outlive the name server, not the node.
%%
%% One ordered table of {{Space, Key}, Value}: a space's names are neighbours, so that whatever works on a space
%% touches only that. The walks are exported because the Mnesia store's table is such a table too; anything that
%% writes here must stay in the name server.
-module(vsns_store_ets).
-behaviour(vsns_store).

-export([prepare/1, open/1, save/4, load/3, remove/3, load_all/5, remove_all/2, count/1, needs_sync/1, sync/1]).
-export([walk/3, spaces/1]).

%% Longer than any key can be, and so behind all of them: where to jump to the next space from.
-define(BEHIND_ALL_KEYS, (binary:copy(<<255>>, 65536))).

%% @doc The table, owned by whoever calls.
-spec prepare(vsns_options:options()) -> ets:table().
prepare(_) ->
    %% public: the owner never writes, the name server does and does not own.
    ets:new(vsns_names, [ordered_set, public]).

%% @doc The table as the last name server left it.
-spec open(ets:table()) -> ets:table().
open(Table) -> Table.

%% @doc Saves one name.
-spec save(vsns_frame:space(), vsns_frame:key(), vsns_frame:value(), ets:table()) -> ets:table().
save(Space, Key, Value, Table) ->
    true = ets:insert(Table, {{Space, Key}, Value}),
    Table.

%% @doc Loads one name.
-spec load(vsns_frame:space(), vsns_frame:key(), ets:table()) -> {ok, vsns_frame:value()} | not_found.
load(Space, Key, Table) ->
    case ets:lookup(Table, {Space, Key}) of
        [{_, Value}] -> {ok, Value};
        [] -> not_found
    end.

%% @doc Removes one name.
-spec remove(vsns_frame:space(), vsns_frame:key(), ets:table()) -> {0 | 1, ets:table()}.
remove(Space, Key, Table) ->
    {length(ets:take(Table, {Space, Key})), Table}.

%% @doc One page of a space.
-spec load_all(vsns_frame:space(), binary(), pos_integer(), pos_integer(), ets:table()) ->
    {boolean(), [{vsns_frame:key(), vsns_frame:value()}]}.
load_all(Space, After, Limit, Bytes, Table) ->
    vsns_store:page(walk(Table, Space, 2), {Space, After}, Limit, Bytes).

%% @doc A step through one space of an ordered table whose value is at a position.
-spec walk(ets:table(), vsns_frame:space(), pos_integer()) -> vsns_store:step().
walk(Table, Space, Position) ->
    fun(Cursor) ->
        case ets:next(Table, Cursor) of
            {Space, Key} = Next -> {Key, ets:lookup_element(Table, Next, Position), Next};
            _ -> none
        end
    end.

%% @doc Drops a space. The key is bound up to the space, so ETS visits only that range.
-spec remove_all(vsns_frame:space(), ets:table()) -> {non_neg_integer(), ets:table()}.
remove_all(Space, Table) ->
    {ets:select_delete(Table, [{{{Space, '_'}, '_'}, [], [true]}]), Table}.

%% @doc Names and spaces; the spaces cost one step each.
-spec count(ets:table()) -> {non_neg_integer(), non_neg_integer()}.
count(Table) ->
    {ets:info(Table, size), spaces(Table)}.

%% @doc How many spaces an ordered table has, by jumping from one to the next.
-spec spaces(ets:table()) -> non_neg_integer().
spaces(Table) ->
    spaces(Table, ets:first(Table), ?BEHIND_ALL_KEYS, 0).

-spec spaces(ets:table(), term(), binary(), non_neg_integer()) -> non_neg_integer().
spaces(_, '$end_of_table', _, N) -> N;
spaces(Table, {Space, _}, Behind, N) -> spaces(Table, ets:next(Table, {Space, Behind}), Behind, N + 1).

%% @doc There is no disk to wait for.
-spec needs_sync(ets:table()) -> false.
needs_sync(_) -> false.

%% @doc There is no disk to wait for.
-spec sync(ets:table()) -> ok.
sync(_) -> ok.
