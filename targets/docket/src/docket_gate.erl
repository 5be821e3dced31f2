%% Lets members into the cluster that this one is in, one at a time.
%%
%% Runs on every member; who wants in asks one that is in.
-module(docket_gate).
-behaviour(gen_server).

-export([start_link/1, let_in/2]).
-export([init/1, handle_call/3, handle_cast/2]).

-define(PATIENCE_MS, 40000).

%% @doc Starts the gate.
-spec start_link(docket_options:options()) -> gen_server:start_ret().
start_link(Options) ->
    gen_server:start_link({local, ?MODULE}, ?MODULE, Options, []).

%% @doc Asks the gate of a member to let the caller's node in. Its Mnesia must not run yet, and runs when this succeeds.
-spec let_in(Of :: node(), Who :: node()) -> ok | {error, term()}.
let_in(Of, Who) ->
    try
        gen_server:call({?MODULE, Of}, {let_in, Who}, ?PATIENCE_MS)
    catch
        exit:{Reason, _} -> {error, Reason}
    end.

%% @private
-spec init(docket_options:options()) -> {ok, ram | disc}.
init(#{copies := Copies}) ->
    {ok, Copies}.

%% @private
-spec handle_call({let_in, node()}, gen_server:from(), ram | disc) -> {reply, ok | {error, term()}, ram | disc}.
handle_call({let_in, Node}, _, Copies) ->
    {reply, steps(Node, Copies), Copies}.

%% @private
-spec handle_cast(term(), ram | disc) -> {noreply, ram | disc}.
handle_cast(_, Copies) -> {noreply, Copies}.

-spec steps(node(), ram | disc) -> ok | {error, term()}.
steps(Node, Copies) ->
    Type = docket_cluster:copies(Copies),
    try
        ok = gone(Node),
        ok = forgotten(Node, Copies),
        ok = erpc:call(Node, docket_cluster, open, [], ?PATIENCE_MS),
        {ok, [_ | _]} = erpc:call(Node, mnesia, change_config, [extra_db_nodes, [node()]], ?PATIENCE_MS),
        ok = schema_copy(Node, Copies),
        lists:foreach(fun({Table, _}) -> ok = done(mnesia:add_table_copy(Table, Node, Type)) end, docket_register:tables({Type, []}))
    catch
        error:{badmatch, Why} -> {error, Why};
        Class:Why -> {error, {Class, Why}}
    end.

%% Its last incarnation may not have been missed yet.
-spec gone(node()) -> ok | {error, term()}.
gone(Node) ->
    case lists:member(Node, mnesia:system_info(running_db_nodes)) of
        true -> {error, {still_known, Node}};
        false -> ok
    end.

%% A member with copies on disk that comes without them has lost them: to Mnesia that is another one.
-spec forgotten(node(), ram | disc) -> ok | {error, term()}.
forgotten(_, ram) ->
    ok;
forgotten(Node, disc) ->
    case lists:member(Node, mnesia:system_info(db_nodes)) of
        true -> done(mnesia:del_table_copy(schema, Node));
        false -> ok
    end.

-spec schema_copy(node(), ram | disc) -> ok | {error, term()}.
schema_copy(_, ram) -> ok;
schema_copy(Node, disc) -> done(mnesia:change_table_copy_type(schema, Node, disc_copies)).

-spec done({atomic, ok} | {aborted, term()}) -> ok | {error, term()}.
done({atomic, ok}) -> ok;
done({aborted, Reason}) when element(1, Reason) =:= already_exists -> ok;
done({aborted, Reason}) -> {error, Reason}.
