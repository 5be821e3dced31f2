%% One cluster of all members: founds it, joins it, comes back to it, and says whether this member serves.
%%
%% A cluster is founded once, by the first member of the list, when every other one has said that it knows of none. From then on
%% whoever comes without data is let in by one that is in, the first member, too; so there is never a second, empty one. Whoever
%% has its place on disk comes back through Mnesia, which knows whose cases are the latest.
-module(docket_cluster).
-behaviour(gen_server).

-export([start_link/1, standing/0, ready/0, open/0, copies/1]).
-export([init/1, handle_continue/2, handle_call/3, handle_cast/2, handle_info/2]).

-define(TICK_MS, 200).
-define(SERVING_TICK_MS, 1000).
-define(ASK_MS, 2000).
%% How long the others are waited for, tables are silently waited for, waited for at all, and members that are on their way in.
-define(ALONE_S, 45).
-define(QUIET_S, 3).
-define(TABLES_S, 45).
-define(STRAGGLERS_S, 20).

%% `fresh': knows of no cluster. `returning': has its place on disk. `formed': is in.
-type standing() :: fresh | returning | formed.

-record(state, {
    options :: docket_options:options(),
    peers :: [node()],
    phase = looking :: looking | loading | gathering | serving,
    since :: integer(),
    told = false :: boolean(),
    mnesia :: reference() | undefined,
    calling :: pid() | undefined
}).

%% @doc Starts forming the cluster, and returns at once.
-spec start_link(docket_options:options()) -> gen_server:start_ret().
start_link(Options) ->
    gen_server:start_link({local, ?MODULE}, ?MODULE, Options, []).

%% @doc What this member knows of a cluster; other members ask this.
-spec standing() -> standing().
standing() -> persistent_term:get({?MODULE, standing}).

%% @doc Whether this member serves, or why not yet.
-spec ready() -> true | unicode:chardata().
ready() -> persistent_term:get({?MODULE, ready}, "starts").

%% @doc Starts Mnesia here. A gate calls this when the way is free.
-spec open() -> ok | {error, term()}.
open() ->
    case application:ensure_all_started(mnesia) of
        {ok, _} -> ok;
        Error -> Error
    end.

%% @doc Mnesia's name for a kind of copy.
-spec copies(ram | disc) -> ram_copies | disc_copies.
copies(ram) -> ram_copies;
copies(disc) -> disc_copies.

%% @private
-spec init(docket_options:options()) -> {ok, #state{}, {continue, begin_}}.
init(#{members := Members, host := Host} = Options) ->
    Peers = [docket_options:node_of(M) || M <- Members, M =/= Host],
    not_ready("starts"),
    stand(fresh),
    {ok, #state{options = Options, peers = Peers, since = now_s()}, {continue, begin_}}.

%% @private
-spec handle_continue(begin_, #state{}) -> {noreply, #state{}}.
handle_continue(begin_, #state{options = Options, peers = Peers} = State) ->
    ok = set_up(Options),
    All = all(Peers),
    case docket_folder:mark(Options) of
        {ok, All} ->
            stand(returning),
            case open() of
                ok -> tick(enter(loading, State));
                {error, Reason} -> docket_log:give_up(1, "start Mnesia: ~0tp", [Reason])
            end;
        {ok, Others} ->
            docket_log:give_up(2, "serve with ~ts: its data folder is of a cluster of ~ts; start it with those, or empty the folder",
                               [names(All), names(Others)]);
        none ->
            emptied(Options),
            tick(State);
        {error, Text} ->
            docket_log:give_up(2, "read its data folder: ~ts", [Text])
    end.

%% @private
-spec handle_call(term(), gen_server:from(), #state{}) -> {noreply, #state{}}.
handle_call(_, _, State) -> {noreply, State}.

%% @private
-spec handle_cast(term(), #state{}) -> {noreply, #state{}}.
handle_cast(_, State) -> {noreply, State}.

%% @private
-spec handle_info(term(), #state{}) -> {noreply, #state{}}.
handle_info(tick, State) ->
    tick(step(State));
handle_info({'DOWN', Monitor, process, _, Reason}, #state{mnesia = Monitor} = State) ->
    %% At the end of the VM Mnesia is stopped before this process.
    case init:get_status() of
        {stopping, _} -> {noreply, State};
        _ -> docket_log:give_up(1, "go on: Mnesia ended: ~0tp", [Reason])
    end;
handle_info({'DOWN', _, process, Pid, _}, #state{calling = Pid} = State) ->
    {noreply, State#state{calling = undefined}};
handle_info(_, State) ->
    {noreply, State}.

-spec tick(#state{}) -> {noreply, #state{}}.
tick(#state{phase = Phase} = State) ->
    _ = erlang:send_after(case Phase of serving -> ?SERVING_TICK_MS; _ -> ?TICK_MS end, self(), tick),
    {noreply, State}.

-spec step(#state{}) -> #state{}.
step(#state{phase = looking} = State) -> look(State);
step(#state{phase = loading} = State) -> load(State);
step(#state{phase = gathering} = State) -> gather(State);
step(#state{phase = serving} = State) -> call_peers(State).

%% Mnesia reads its settings when it starts.
-spec set_up(docket_options:options()) -> ok.
set_up(#{copies := Copies, dump_writes := Writes, dump_s := Seconds} = Options) ->
    _ = application:load(mnesia),
    Location = case Copies of
        ram -> [{schema_location, ram}];
        disc -> [{dir, docket_folder:mnesia(Options)}]
    end,
    Settings = [{event_module, docket_events}, {core_dir, false},
                %% A log that is still not dumped when the next is due is an overload, and said.
                {dump_log_write_threshold, Writes}, {dump_log_time_threshold, timer:seconds(Seconds)} | Location],
    lists:foreach(fun({Name, Value}) -> application:set_env(mnesia, Name, Value, [{persistent, true}]) end, Settings).

%% Looks for a cluster to join, or founds it.
-spec look(#state{}) -> #state{}.
look(#state{options = #{members := [First | _], host := Host}, peers = Peers} = State) ->
    Answers = lists:zip(Peers, erpc:multicall(Peers, ?MODULE, standing, [], ?ASK_MS)),
    Silent = [Peer || {Peer, Answer} <- Answers, not is_answer(Answer)],
    Returning = [Peer || {Peer, {ok, returning}} <- Answers],
    case [Peer || {Peer, {ok, formed}} <- Answers] of
        [In | _] -> join(In, State);
        [] when Silent =/= [] -> wait(["no answer from ", names(Silent)], State);
        [] when Returning =/= [] -> wait([names(Returning), " not back yet"], State);
        [] when First =:= Host -> found(State);
        [] -> wait([atom_to_list(docket_options:node_of(First)), " has not founded it yet"], State)
    end.

-spec is_answer(term()) -> boolean().
is_answer({ok, _}) -> true;
is_answer(_) -> false.

-spec wait(iodata(), #state{}) -> #state{}.
wait(Why, #state{since = Since, told = Told} = State) ->
    Waited = now_s() - Since,
    persistent_term:put({?MODULE, ready}, ["waits for its cluster: ", Why]),
    if
        Waited >= ?ALONE_S ->
            docket_log:give_up(1, "form its cluster: ~ts; start all of --members together, and see that they reach each other "
                                  "at the distribution port", [Why]);
        Waited >= ?QUIET_S, not Told ->
            docket_log:say("waits for its cluster: ~ts", [Why]),
            State#state{told = true};
        true ->
            State
    end.

-spec found(#state{}) -> #state{}.
found(#state{options = #{copies := Copies} = Options, peers = Peers} = State) ->
    try
        ok = schema(Copies),
        ok = open(),
        lists:foreach(fun({Table, Definition}) -> {atomic, ok} = mnesia:create_table(Table, Definition) end,
                      docket_register:tables({copies(Copies), [node()]})),
        ok = docket_folder:put_mark(all(Peers), Options),
        enter(loading, State)
    catch
        error:{badmatch, Why} ->
            docket_log:give_up(1, "found its cluster in ~ts: ~0tp", [docket_folder:mnesia(Options), Why])
    end.

-spec schema(ram | disc) -> ok | {error, term()}.
schema(ram) -> ok;
schema(disc) -> mnesia:create_schema([node()]).

-spec join(node(), #state{}) -> #state{}.
join(In, #state{options = Options} = State) ->
    case docket_gate:let_in(In, node()) of
        ok ->
            enter(loading, State);
        {error, Why} ->
            _ = application:stop(mnesia),
            emptied(Options),
            wait(io_lib:format("~ts does not let it in: ~0tp", [In, Why]), State)
    end.

-spec emptied(docket_options:options()) -> ok.
emptied(Options) ->
    case docket_folder:empty(Options) of
        ok -> ok;
        {error, Text} -> docket_log:give_up(1, "use its data folder: ~ts", [Text])
    end.

%% Waits for the table.
-spec load(#state{}) -> #state{}.
load(#state{options = Options, peers = Peers, since = Since, told = Told} = State) ->
    Tables = [Table || {Table, _} <- docket_register:tables({ram_copies, []})],
    Waited = now_s() - Since,
    case mnesia:wait_for_tables(Tables, ?TICK_MS) of
        ok ->
            case docket_folder:put_mark(all(Peers), Options) of
                ok -> ok;
                {error, Text} -> docket_log:give_up(1, "use its data folder: ~ts", [Text])
            end,
            stand(formed),
            enter(gathering, State);
        Other when Waited >= ?TABLES_S ->
            docket_log:give_up(1, "load its tables: ~ts; start those members, too, or empty the data folders of all",
                               [unloaded(Other)]);
        Other when Waited >= ?QUIET_S, not Told ->
            docket_log:say("waits for tables: ~ts", [unloaded(Other)]),
            not_ready(["waits for tables: ", unloaded(Other)]),
            call_peers(State#state{told = true});
        Other ->
            not_ready(["waits for tables: ", unloaded(Other)]),
            meet(State),
            call_peers(State)
    end.

-spec unloaded(term()) -> iolist().
unloaded({timeout, Tables}) ->
    Missing = mnesia:system_info(db_nodes) -- mnesia:system_info(running_db_nodes),
    Whose = case Missing of
        [] -> "nobody has loaded them yet";
        _ -> ["the last cases may be with ", names(Missing)]
    end,
    [lists:join(", ", [atom_to_list(T) || T <- Tables]), " not loaded, ", Whose];
unloaded({error, Reason}) ->
    io_lib:format("~0tp", [Reason]).

%% Two that started without reaching each other do not look for each other again by themselves.
-spec meet(#state{}) -> ok.
meet(#state{peers = Peers, told = true}) ->
    Apart = [Peer || Peer <- Peers, lists:member(Peer, nodes())] -- mnesia:system_info(running_db_nodes),
    _ = [mnesia:change_config(extra_db_nodes, Apart) || Apart =/= []],
    ok;
meet(_) ->
    ok.

%% Serves when those that are reachable are in, too; those that are on their way are given some time.
-spec gather(#state{}) -> #state{}.
gather(#state{peers = Peers, options = Options, since = Since} = State) ->
    Running = mnesia:system_info(running_db_nodes),
    Waited = now_s() - Since,
    case [Peer || Peer <- Peers, lists:member(Peer, nodes())] -- Running of
        [] ->
            serve(Options, Running, State);
        Stragglers when Waited < ?STRAGGLERS_S ->
            not_ready(["waits for ", names(Stragglers), " to come in"]),
            State;
        Stragglers ->
            docket_log:say("serves without ~ts: reachable, but not in its cluster", [names(Stragglers)]),
            serve(Options, Running, State)
    end.

-spec serve(docket_options:options(), [node()], #state{}) -> #state{}.
serve(#{members := Members, write := Write, read := Read, copies := Copies}, Running, State) ->
    docket_log:say("serves as ~ts with ~b of ~b members, write ~ts, read ~ts, copies ~ts",
                   [node(), length(Running), length(Members), Write, Read, Copies]),
    persistent_term:put({?MODULE, ready}, true),
    enter(serving, State).

%% Connections that broke are made again from here, since nothing else may have to say something to a member that was lost.
%% Not by this process: an address that does not answer takes seconds.
-spec call_peers(#state{}) -> #state{}.
call_peers(#state{calling = undefined, peers = Peers} = State) ->
    case Peers -- nodes() of
        [] ->
            State;
        Lost ->
            {Pid, _} = spawn_monitor(fun() -> lists:foreach(fun net_kernel:connect_node/1, Lost) end),
            State#state{calling = Pid}
    end;
call_peers(State) ->
    State.

-spec enter(loading | gathering | serving, #state{}) -> #state{}.
enter(loading, State) ->
    Monitor = monitor(process, mnesia_sup),
    State#state{phase = loading, since = now_s(), told = false, mnesia = Monitor};
enter(Phase, State) ->
    State#state{phase = Phase, since = now_s(), told = false}.

-spec stand(standing()) -> ok.
stand(Standing) -> persistent_term:put({?MODULE, standing}, Standing).

-spec not_ready(unicode:chardata()) -> ok.
not_ready(Why) -> persistent_term:put({?MODULE, ready}, Why).

-spec all([node()]) -> [node()].
all(Peers) -> lists:sort([node() | Peers]).

-spec names([node()]) -> iolist().
names(Nodes) -> lists:join(", ", [atom_to_list(N) || N <- Nodes]).

-spec now_s() -> integer().
now_s() -> erlang:monotonic_time(second).
