%% Names in a Mnesia table with a copy on disk: they outlive the name server and the node.
%%
%% Every change is a Mnesia transaction. That alone is not durable: Mnesia's log is written behind (disk_log
%% keeps what it was given for up to two seconds), and neither `transaction' nor `sync_transaction' waits for
%% the disk of the local node, so a SIGKILL loses saves that had been answered. So with `sync' (the default) the
%% name server calls sync/1 before it answers, once for all the requests that were waiting: a group commit.
%% Without it this store is the known-bad control for a check of lost writes.
%%
%% Reads are dirty: all changes come from one process, the name server, which does not read while it writes.
-module(vsns_store_mnesia).
-behaviour(vsns_store).

-export([prepare/1, open/1, save/4, load/3, remove/3, load_all/5, remove_all/2, count/1, needs_sync/1, sync/1]).

-define(TABLE, vsns_name).
%% The atoms are for match specifications.
-record(vsns_name, {id :: {vsns_frame:space(), vsns_frame:key() | '$1'}, value :: vsns_frame:value() | '_'}).

-type state() :: #{sync := boolean()}.

%% @doc Starts Mnesia in its folder, and makes schema and table when they are not there yet.
-spec prepare(vsns_options:options()) -> state().
prepare(#{data := Data, sync := Sync}) ->
    Dir = filename:join(Data, "mnesia"),
    ok = application:set_env(mnesia, dir, Dir, [{persistent, true}]),
    %% The default of 1000 is for small logs; at thousands of saves a second Mnesia would warn of overload.
    ok = application:set_env(mnesia, dump_log_write_threshold, 100000, [{persistent, true}]),
    try
        ok = filelib:ensure_path(Dir),
        ok = schema(),
        {ok, _} = application:ensure_all_started(mnesia),
        ok = table(),
        ok = mnesia:wait_for_tables([?TABLE], 60000),
        #{sync => Sync}
    catch
        error:{badmatch, Why} -> exit({vsns_cannot, io_lib:format("cannot open Mnesia in ~ts: ~0tp", [Dir, Why])})
    end.

-spec schema() -> ok | {error, term()}.
schema() ->
    case mnesia:system_info(is_running) of
        yes ->
            ok;
        _ ->
            case mnesia:create_schema([node()]) of
                {error, {_, {already_exists, _}}} -> ok;
                Other -> Other
            end
    end.

-spec table() -> ok | {aborted, term()}.
table() ->
    Options = [{type, ordered_set}, {disc_copies, [node()]}, {attributes, record_info(fields, vsns_name)}],
    case mnesia:create_table(?TABLE, Options) of
        {atomic, ok} -> ok;
        {aborted, {already_exists, ?TABLE}} -> ok;
        Other -> Other
    end.

%% @doc Mnesia has the names.
-spec open(state()) -> state().
open(State) -> State.

%% @doc Saves one name in a transaction.
-spec save(vsns_frame:space(), vsns_frame:key(), vsns_frame:value(), state()) -> state().
save(Space, Key, Value, State) ->
    {atomic, ok} = mnesia:transaction(fun() ->
        mnesia:write(?TABLE, #vsns_name{id = {Space, Key}, value = Value}, write)
    end),
    State.

%% @doc Loads one name.
-spec load(vsns_frame:space(), vsns_frame:key(), state()) -> {ok, vsns_frame:value()} | not_found.
load(Space, Key, _) ->
    case mnesia:dirty_read(?TABLE, {Space, Key}) of
        [#vsns_name{value = Value}] -> {ok, Value};
        [] -> not_found
    end.

%% @doc Removes one name in a transaction, if there is one.
-spec remove(vsns_frame:space(), vsns_frame:key(), state()) -> {0 | 1, state()}.
remove(Space, Key, State) ->
    case ets:member(?TABLE, {Space, Key}) of
        false ->
            {0, State};
        true ->
            {atomic, ok} = mnesia:transaction(fun() -> mnesia:delete(?TABLE, {Space, Key}, write) end),
            {1, State}
    end.

%% @doc One page of a space. Mnesia keeps the table in an ordered ETS table of the same name.
-spec load_all(vsns_frame:space(), binary(), pos_integer(), pos_integer(), state()) ->
    {boolean(), [{vsns_frame:key(), vsns_frame:value()}]}.
load_all(Space, After, Limit, Bytes, _) ->
    vsns_store:page(vsns_store_ets:walk(?TABLE, Space, #vsns_name.value), {Space, After}, Limit, Bytes).

%% @doc Drops a space in one transaction: all of it or nothing. One lock on the table, not one per name.
-spec remove_all(vsns_frame:space(), state()) -> {non_neg_integer(), state()}.
remove_all(Space, State) ->
    Ids = ets:select(?TABLE, [{#vsns_name{id = {Space, '$1'}, _ = '_'}, [], ['$1']}]),
    {atomic, ok} = mnesia:transaction(fun() ->
        mnesia:write_lock_table(?TABLE),
        lists:foreach(fun(Key) -> mnesia:delete(?TABLE, {Space, Key}, write) end, Ids)
    end),
    {length(Ids), State}.

%% @doc Names and spaces.
-spec count(state()) -> {non_neg_integer(), non_neg_integer()}.
count(_) ->
    {ets:info(?TABLE, size), vsns_store_ets:spaces(?TABLE)}.

%% @doc Whether answers wait for the disk.
-spec needs_sync(state()) -> boolean().
needs_sync(#{sync := Sync}) -> Sync.

%% @doc Returns when all changes so far are on disk.
-spec sync(state()) -> ok.
sync(_) ->
    ok = mnesia:sync_log().
