%% The one process that every call on names goes through, as in the article, and that `oops' crashes.
%%
%% It puts requests to a store, one after the other, and knows neither sockets nor bytes on the wire. What goes wrong is not
%% caught here: its crash is what this service is for, and its supervisor the repair.
-module(vsns_name_server).
-behaviour(gen_server).

-export([start_link/1, call/2, gone/2]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2]).
-export_type([link/0]).

%% A caller's view of the name server: the process it watches, or none yet.
-type link() :: none | {pid(), reference()}.

-record(state, {
    store :: module(),
    names :: vsns_store:state(),
    frame_limit :: pos_integer(),
    %% Answers wait here for a sync of the store, latest first; empty for stores that need none.
    waiting = [] :: [{caller(), vsns_frame:answer() | counts()}]
}).

-type caller() :: {pid(), reference()}.
-type counts() :: {counts, Names :: non_neg_integer(), Spaces :: non_neg_integer()}.
-type request() :: vsns_frame:request().
-type paused() :: {paused, vsns_options:options()}.

%% @doc Starts the name server on what the table owner shares. After a crash it serves only when `restart_pause_ms' is over:
%% it has no name before that, so that calls fail, and nobody waits for it, its supervisor least of all.
-spec start_link(vsns_options:options()) -> gen_server:start_ret().
start_link(Options) ->
    gen_server:start_link(?MODULE, Options, [{spawn_opt, [{message_queue_data, off_heap}]}]).

%% @doc Calls the name server. `{down, Reason}': it was not there, or died before it answered; the request may
%% then have been carried out or not.
%%
%% A cast, a reply by message, and one monitor per caller, where gen_server:call/2 has one per call: a connection makes
%% thousands of calls a second to the same process. A reply can never be taken for another's, because each call has its
%% own reference and none gives up waiting while the name server lives.
-spec call(request(), link()) -> {ok, vsns_frame:answer() | counts(), link()} | {down, term()}.
call(Request, none) ->
    case whereis(?MODULE) of
        undefined -> {down, noproc};
        Pid -> call(Request, {Pid, erlang:monitor(process, Pid)})
    end;
call(Request, {Pid, Monitor} = Link) ->
    Ref = make_ref(),
    ok = gen_server:cast(Pid, {request, {self(), Ref}, Request}),
    receive
        {Ref, Answer} -> {ok, Answer, Link};
        {'DOWN', Monitor, process, _, Reason} -> {down, Reason}
    end.

%% @doc For a message that a caller found in its mailbox: whether it says that its name server is gone.
-spec gone(term(), link()) -> boolean().
gone({'DOWN', Monitor, process, _, _}, {_, Monitor}) -> true;
gone(_, _) -> false.

%% @private
-spec init(vsns_options:options()) -> {ok, #state{} | paused()}.
init(#{restart_pause_ms := Pause} = Options) ->
    case Pause > 0 andalso vsns_table_owner:starts() > 0 of
        true ->
            _ = erlang:send_after(Pause, self(), serve),
            {ok, {paused, Options}};
        false ->
            {ok, serve(Options)}
    end.

-spec serve(vsns_options:options()) -> #state{}.
serve(#{state := Kind, frame_limit := Limit}) ->
    true = register(?MODULE, self()),
    Store = vsns_store:module(Kind),
    {Shared, Before} = vsns_table_owner:share(),
    Names = Store:open(Shared),
    _ = [logger:warning("name server up: restart ~b, ~b names (~s)", [Before, element(1, Store:count(Names)), Kind])
         || Before > 0],
    #state{store = Store, names = Names, frame_limit = Limit}.

%% @private
-spec handle_call(term(), gen_server:from(), State) -> {noreply, State} when State :: #state{} | paused().
handle_call(_, _, State) ->
    {noreply, State}.

%% @private
-spec handle_cast({request, caller(), request()}, #state{}) -> {noreply, #state{}} | {noreply, #state{}, 0}.
handle_cast({request, Caller, oops}, State) ->
    %% The answer leaves before the crash but after everything that could prevent it: nothing is left to fail
    %% between the two lines, and what was sent by a process arrives before the news of its death.
    ok = settle(State),
    ok = reply(Caller, ok),
    exit(oops);
handle_cast({request, Caller, Request}, #state{store = Store, names = Names} = State) ->
    {Answer, After} = apply_to(Request, Names, State),
    Next = State#state{names = After},
    case Store:needs_sync(After) of
        false ->
            ok = reply(Caller, Answer),
            {noreply, Next};
        %% Reads wait too: an answer must not show a name that a power cut could still take back.
        true ->
            wait([{Caller, Answer} | State#state.waiting], Next)
    end.

-spec reply(caller(), vsns_frame:answer() | counts()) -> ok.
reply({Pid, Ref}, Answer) ->
    Pid ! {Ref, Answer},
    ok.

%% A timeout of 0 comes when no other request is waiting: then all are synced at once.
-spec wait([{caller(), vsns_frame:answer() | counts()}], #state{}) -> {noreply, #state{}, 0}.
wait(Waiting, State) ->
    {noreply, State#state{waiting = Waiting}, 0}.

-spec apply_to(request(), vsns_store:state(), #state{}) -> {vsns_frame:answer() | counts(), vsns_store:state()}.
apply_to({save, Space, Key, Value}, Names, #state{store = Store}) ->
    {ok, Store:save(Space, Key, Value, Names)};
apply_to({load, Space, Key}, Names, #state{store = Store}) ->
    case Store:load(Space, Key, Names) of
        {ok, Value} -> {{value, Value}, Names};
        not_found -> {not_found, Names}
    end;
apply_to({remove, Space, Key}, Names, #state{store = Store}) ->
    {Removed, After} = Store:remove(Space, Key, Names),
    {{removed, Removed}, After};
apply_to({load_all, Space, From, Limit}, Names, #state{store = Store, frame_limit = Bytes}) ->
    {More, Entries} = Store:load_all(Space, From, Limit, Bytes, Names),
    {{page, More, Entries}, Names};
apply_to({remove_all, Space}, Names, #state{store = Store}) ->
    {Count, After} = Store:remove_all(Space, Names),
    {{count, Count}, After};
apply_to(stats, Names, #state{store = Store}) ->
    {Count, Spaces} = Store:count(Names),
    {{counts, Count, Spaces}, Names};
apply_to(ping, Names, _) ->
    {ok, Names}.

-spec settle(#state{}) -> ok.
settle(#state{waiting = []}) ->
    ok;
settle(#state{waiting = Waiting, store = Store, names = Names}) ->
    ok = Store:sync(Names),
    lists:foreach(fun({Caller, Answer}) -> reply(Caller, Answer) end, lists:reverse(Waiting)).

%% @private
-spec handle_info(term(), #state{} | paused()) -> {noreply, #state{} | paused()}.
handle_info(serve, {paused, Options}) ->
    {noreply, serve(Options)};
handle_info(_, {paused, _} = State) ->
    {noreply, State};
handle_info(_, State) ->
    ok = settle(State),
    {noreply, State#state{waiting = []}}.
