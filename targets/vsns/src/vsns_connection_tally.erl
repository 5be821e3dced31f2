%% Counts the connections of one listener, holds them to their limit, and knows how many were cut off.
%%
%% A connection reports itself once; its end is seen by a monitor, so that no way of dying is missed.
-module(vsns_connection_tally).
-behaviour(gen_server).

-export([start_link/2, admit/1, totals/1]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2]).

-record(state, {limit :: pos_integer(), open = 0 :: non_neg_integer(), cut_off = 0 :: non_neg_integer()}).

%% @doc Starts the tally of a listener.
-spec start_link(vsns_listener_sup:role(), vsns_options:options()) -> gen_server:start_ret().
start_link(Role, #{connections := Limit}) ->
    gen_server:start_link({local, name(Role)}, ?MODULE, Limit, []).

%% @doc Asks for a place for the calling process.
-spec admit(vsns_listener_sup:role()) -> ok | busy.
admit(Role) ->
    gen_server:call(name(Role), {admit, self()}, infinity).

%% @doc Connections open now, and closed since the start because the name server failed them.
-spec totals(vsns_listener_sup:role()) -> {Open :: non_neg_integer(), CutOff :: non_neg_integer()}.
totals(Role) ->
    gen_server:call(name(Role), totals, infinity).

-spec name(vsns_listener_sup:role()) -> atom().
name(service) -> vsns_connection_tally;
name(hub) -> vsns_hub_connection_tally.

%% @private
-spec init(pos_integer()) -> {ok, #state{}}.
init(Limit) ->
    {ok, #state{limit = Limit}}.

%% @private
-spec handle_call({admit, pid()} | totals, gen_server:from(), #state{}) -> {reply, term(), #state{}}.
handle_call({admit, _}, _From, #state{open = Open, limit = Limit} = State) when Open >= Limit ->
    {reply, busy, State};
handle_call({admit, Pid}, _From, #state{open = Open} = State) ->
    _ = erlang:monitor(process, Pid),
    {reply, ok, State#state{open = Open + 1}};
handle_call(totals, _From, #state{open = Open, cut_off = CutOff} = State) ->
    {reply, {Open, CutOff}, State}.

%% @private
-spec handle_cast(term(), #state{}) -> {noreply, #state{}}.
handle_cast(_, State) ->
    {noreply, State}.

%% @private
-spec handle_info(term(), #state{}) -> {noreply, #state{}}.
handle_info({'DOWN', _, process, _, {shutdown, cut_off}}, #state{open = Open, cut_off = CutOff} = State) ->
    {noreply, State#state{open = Open - 1, cut_off = CutOff + 1}};
handle_info({'DOWN', _, process, _, _}, #state{open = Open} = State) ->
    {noreply, State#state{open = Open - 1}};
handle_info(_, State) ->
    {noreply, State}.
