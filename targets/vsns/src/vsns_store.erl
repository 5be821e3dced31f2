%% What a store is: a map of spaces to maps of keys to values, kept somewhere.
%%
%% The behaviour, and the paging that all stores share.
%%
%% A store has two lives. prepare/1 runs once in the table owner, which outlives the name server; open/1 runs in
%% the name server each time that starts. Whatever is only in the state that open/1 returns dies with the name
%% server.
-module(vsns_store).

-export([module/1, page/4]).
-export_type([shared/0, state/0, step/0]).

-type shared() :: term().
-type state() :: term().

%% From a cursor to the entry there and the next cursor. Entries come in the order of their keys.
-type step() :: fun((Cursor :: term()) ->
    none | {vsns_frame:key(), vsns_frame:value(), Next :: term()}).

-callback prepare(vsns_options:options()) -> shared().
-callback open(shared()) -> state().
-callback save(vsns_frame:space(), vsns_frame:key(), vsns_frame:value(), state()) -> state().
-callback load(vsns_frame:space(), vsns_frame:key(), state()) -> {ok, vsns_frame:value()} | not_found.
-callback remove(vsns_frame:space(), vsns_frame:key(), state()) -> {0 | 1, state()}.
%% At most Limit entries with keys above After, and no more than fit into Bytes (but at least one).
-callback load_all(vsns_frame:space(), After :: binary(), Limit :: pos_integer(), Bytes :: pos_integer(),
                   state()) -> {More :: boolean(), [{vsns_frame:key(), vsns_frame:value()}]}.
-callback remove_all(vsns_frame:space(), state()) -> {non_neg_integer(), state()}.
-callback count(state()) -> {Names :: non_neg_integer(), Spaces :: non_neg_integer()}.
%% Whether answers have to wait for sync/1, which may then be called once for many of them.
-callback needs_sync(state()) -> boolean().
-callback sync(state()) -> ok.

%% @doc The module of a kind of state.
-spec module(process | ets | mnesia) -> module().
module(process) -> vsns_store_process;
module(ets) -> vsns_store_ets;
module(mnesia) -> vsns_store_mnesia.

%% @doc Walks to a page: up to Limit entries and up to Bytes of answer, at least one if there is one.
-spec page(step(), Cursor :: term(), pos_integer(), pos_integer()) ->
    {boolean(), [{vsns_frame:key(), vsns_frame:value()}]}.
page(Step, Cursor, Limit, Bytes) ->
    %% What the answer carries before its first entry.
    page(Step, Cursor, Limit, Bytes - 10, []).

-spec page(step(), term(), non_neg_integer(), integer(), [{vsns_frame:key(), vsns_frame:value()}]) ->
    {boolean(), [{vsns_frame:key(), vsns_frame:value()}]}.
page(Step, Cursor, Limit, Bytes, Entries) ->
    case Step(Cursor) of
        none ->
            {false, lists:reverse(Entries)};
        {Key, Value, Next} ->
            Left = Bytes - 6 - byte_size(Key) - byte_size(Value),
            Fits = Limit > 0 andalso (Left >= 0 orelse Entries =:= []),
            case Fits of
                true -> page(Step, Next, Limit - 1, Left, [{Key, Value} | Entries]);
                false -> {true, lists:reverse(Entries)}
            end
    end.
