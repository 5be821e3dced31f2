%% The one Prolog server of the cluster, on its first member: priv/register.pl as a port program.
%%
%% Each ends with the other: its standard input closes when this VM ends, however that happens, and when it ends it is started
%% again.
-module(docket_serial_server).
-behaviour(gen_server).

-export([start_link/1]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2]).

%% Until it listens, at the start of this member; a core may be a tenth of a core.
-define(WITHIN_MS, 30000).
%% Before it is started again.
-define(PAUSE_MS, 200).

-record(state, {command :: {file:filename_all(), [string()]}, port :: port() | none}).
-type state() :: #state{}.

%% Does not return before it listens. If it cannot be started, this fails and has said why.
-spec start_link(docket_serial:options()) -> gen_server:start_ret().
start_link(Options) ->
    gen_server:start_link({local, ?MODULE}, ?MODULE, Options, []).

-spec init(docket_serial:options()) -> {ok, state()} | {stop, term()}.
init(#{first := First, port := Number}) ->
    case os:find_executable("swipl") of
        false ->
            say("cannot start the serial server: SWI-Prolog is not installed (Debian's package is swi-prolog-nox)", []),
            {stop, no_swipl};
        Swipl ->
            Register = filename:join([filename:dirname(code:which(?MODULE)), "..", "priv", "register.pl"]),
            Arguments = ["-f", "none", "-q", "-O", Register, "--", docket_serial:text(First), integer_to_list(Number)],
            State = start(#state{command = {Swipl, Arguments}, port = none}),
            await(State, erlang:monotonic_time(millisecond) + ?WITHIN_MS)
    end.

-spec await(state(), integer()) -> {ok, state()} | {stop, term()}.
await(#state{port = Port} = State, Deadline) ->
    receive
        {Port, {data, {eol, "listens."}}} ->
            {ok, State};
        {Port, {data, {_, Line}}} ->
            say("the serial server says: ~ts", [Line]),
            await(State, Deadline);
        {Port, {exit_status, Status}} ->
            say("cannot start the serial server: it ended with status ~b", [Status]),
            {stop, {exit_status, Status}}
    after max(0, Deadline - erlang:monotonic_time(millisecond)) ->
        say("cannot start the serial server: it does not listen after ~b s", [?WITHIN_MS div 1000]),
        {stop, does_not_listen}
    end.

-spec start(state()) -> state().
start(#state{command = {Swipl, Arguments}} = State) ->
    State#state{port = open_port({spawn_executable, Swipl}, [{args, Arguments}, {line, 1000}, exit_status, use_stdio])}.

-spec handle_call(term(), gen_server:from(), state()) -> {noreply, state()}.
handle_call(_, _, State) -> {noreply, State}.

-spec handle_cast(term(), state()) -> {noreply, state()}.
handle_cast(_, State) -> {noreply, State}.

-spec handle_info(term(), state()) -> {noreply, state()}.
handle_info({Port, {exit_status, Status}}, #state{port = Port} = State) ->
    say("the serial server ended with status ~b and is started again", [Status]),
    _ = erlang:send_after(?PAUSE_MS, self(), start),
    {noreply, State#state{port = none}};
handle_info(start, #state{port = none} = State) ->
    {noreply, start(State)};
handle_info({Port, {data, {eol, "listens."}}}, #state{port = Port} = State) ->
    say("the serial server listens again", []),
    {noreply, State};
handle_info({Port, {data, {_, Line}}}, #state{port = Port} = State) ->
    say("the serial server says: ~ts", [Line]),
    {noreply, State};
handle_info(_, State) ->
    {noreply, State}.

-spec say(io:format(), [term()]) -> ok.
say(Format, Arguments) ->
    io:format(standard_error, "docket: " ++ Format ++ "~n", Arguments).
