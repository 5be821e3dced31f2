%% Owns what has to outlive the name server: its table, and the count of its starts.
%%
%% It does as little as possible, because what does nothing does not crash: no name ever passes through here.
-module(vsns_table_owner).
-behaviour(gen_server).

-export([start_link/1, share/0, starts/0, restarts/0]).
-export([init/1, handle_call/3, handle_cast/2]).

-record(state, {shared :: vsns_store:shared(), starts = 0 :: non_neg_integer()}).

%% @doc Starts the owner, which prepares the store.
-spec start_link(vsns_options:options()) -> gen_server:start_ret().
start_link(Options) ->
    gen_server:start_link({local, ?MODULE}, ?MODULE, Options, []).

%% @doc For a name server that starts: what is shared with the one before, and how many there were before.
-spec share() -> {vsns_store:shared(), Before :: non_neg_integer()}.
share() ->
    gen_server:call(?MODULE, share, infinity).

%% @doc How many name servers have started.
-spec starts() -> non_neg_integer().
starts() ->
    gen_server:call(?MODULE, starts, infinity).

%% @doc How many times the name server was restarted.
-spec restarts() -> non_neg_integer().
restarts() ->
    max(0, starts() - 1).

%% @private
-spec init(vsns_options:options()) -> {ok, #state{}}.
init(#{state := Kind} = Options) ->
    Store = vsns_store:module(Kind),
    {ok, #state{shared = Store:prepare(Options)}}.

%% @private
-spec handle_call(share | starts, gen_server:from(), #state{}) -> {reply, term(), #state{}}.
handle_call(share, _From, #state{shared = Shared, starts = Starts} = State) ->
    {reply, {Shared, Starts}, State#state{starts = Starts + 1}};
handle_call(starts, _From, #state{starts = Starts} = State) ->
    {reply, Starts, State}.

%% @private
-spec handle_cast(term(), #state{}) -> {noreply, #state{}}.
handle_cast(_, State) ->
    {noreply, State}.
