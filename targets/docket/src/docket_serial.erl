%% Asks the one Prolog server of the cluster whether a case may be admitted: the article's serial bottleneck.
%%
%% One connection for each member, one request at a time on it, 5 s for each, the wait for its turn included.
-module(docket_serial).
-behaviour(gen_server).

-export([child_specs/1, start_link/1, admit/3, text/1]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2]).

-define(LIMIT_MS, 5000).
%% A connection takes no longer than that, or there will be none.
-define(CONNECT_MS, 1000).
%% After a connection that could not be made none is tried for so long: each try may hold up all who wait.
-define(PAUSE_MS, 200).

-type address() :: string() | binary() | inet:ip_address().
%% `limit_ms` is for tests.
-type options() :: #{serial := boolean(), is_first := boolean(), first := address(), port := inet:port_number(),
                     limit_ms => pos_integer(), _ => _}.
-type answer() :: ok | {refused, binary()} | {error, binary()}.
-export_type([address/0, options/0, answer/0]).

-record(state, {address :: string(), port :: inet:port_number(), limit_ms :: pos_integer(),
                socket = none :: gen_tcp:socket() | none,
                %% When it may be tried again to connect, and why it failed.
                failed = none :: {integer(), binary()} | none}).
-type state() :: #state{}.

%% Nothing without `serial`; on the first member the server and its client, on others the client. In this order.
-spec child_specs(options()) -> [supervisor:child_spec()].
child_specs(#{serial := false}) -> [];
child_specs(#{is_first := true} = Options) -> [child(docket_serial_server, Options), child(?MODULE, Options)];
child_specs(Options) -> [child(?MODULE, Options)].

-spec child(module(), options()) -> supervisor:child_spec().
child(Module, Options) -> #{id => Module, start => {Module, start_link, [Options]}}.

-spec start_link(options()) -> gen_server:start_ret().
start_link(Options) ->
    gen_server:start_link({local, ?MODULE}, ?MODULE, Options, []).

%% Length is the document's, in bytes. Refused says why, in a word of the rules; error, why there was no answer.
-spec admit(binary(), binary(), non_neg_integer()) -> answer().
admit(Id, Party, Length) ->
    case request(Id, Party, Length) of
        {ok, Request} ->
            %% The process answers in time by itself, so a limit here would only leave answers that nobody awaits.
            try gen_server:call(?MODULE, {ask, Request, now_ms()}, infinity)
            catch exit:_ -> {error, <<"the client of the serial server is not running">>}
            end;
        error ->
            {refused, <<"not_understood">>}
    end.

%% An address as it is written.
-spec text(address()) -> string().
text(Address) when is_tuple(Address) -> inet:ntoa(Address);
text(Address) -> unicode:characters_to_list(Address).

-spec init(options()) -> {ok, state()}.
init(#{first := First, port := Port} = Options) ->
    {ok, #state{address = text(First), port = Port, limit_ms = maps:get(limit_ms, Options, ?LIMIT_MS)}}.

-spec handle_call({ask, iodata(), integer()}, gen_server:from(), state()) -> {reply, answer(), state()}.
handle_call({ask, Request, Since}, _From, #state{limit_ms = Limit} = State) ->
    {Answer, Next} = ask(Request, Since + Limit, State),
    {reply, Answer, Next}.

-spec handle_cast(term(), state()) -> {noreply, state()}.
handle_cast(_, State) -> {noreply, State}.

-spec handle_info(term(), state()) -> {noreply, state()}.
handle_info(_, State) -> {noreply, State}.

-spec ask(iodata(), integer(), state()) -> {answer(), state()}.
ask(Request, Deadline, #state{socket = none} = State) ->
    case connect(Deadline, State) of
        {ok, Connected} ->
            case exchange(Request, Deadline, Connected) of
                {closed, Closed} -> {{error, <<"the serial server closed the connection">>}, Closed};
                Answered -> Answered
            end;
        {error, Why, Failed} ->
            {{error, Why}, Failed}
    end;
ask(Request, Deadline, State) ->
    case exchange(Request, Deadline, State) of
        %% The server was started again since it was asked last. It keeps nothing, so it may be asked twice.
        {closed, Closed} -> ask(Request, Deadline, Closed);
        Answered -> Answered
    end.

-spec connect(integer(), state()) -> {ok, state()} | {error, binary(), state()}.
connect(Deadline, #state{address = Address, port = Port, failed = Failed, limit_ms = Limit} = State) ->
    Now = now_ms(),
    case Failed of
        {Until, Why} when Now < Until ->
            {error, Why, State};
        _ when Now >= Deadline ->
            {error, late(Limit), State};
        _ ->
            Options = [binary, {packet, line}, {active, false}, {nodelay, true}, {send_timeout, Limit}],
            case gen_tcp:connect(Address, Port, Options, min(?CONNECT_MS, Deadline - Now)) of
                {ok, Socket} ->
                    {ok, State#state{socket = Socket, failed = none}};
                {error, Reason} ->
                    Why = say("no connection to the serial server at ~ts:~b: ~ts", [Address, Port, reason(Reason)]),
                    {error, Why, State#state{failed = {now_ms() + ?PAUSE_MS, Why}}}
            end
    end.

%% `closed`: by the other side, which thus may be another by now.
-spec exchange(iodata(), integer(), state()) -> {answer() | closed, state()}.
exchange(Request, Deadline, #state{socket = Socket, limit_ms = Limit} = State) ->
    Left = Deadline - now_ms(),
    case Left > 0 andalso gen_tcp:send(Socket, Request) of
        false ->
            {{error, late(Limit)}, State};
        ok ->
            case gen_tcp:recv(Socket, 0, Left) of
                {ok, Line} -> understood(Line, State);
                {error, timeout} -> give_up(late(Limit), State);
                {error, _} -> {closed, disconnect(State)}
            end;
        {error, timeout} ->
            give_up(late(Limit), State);
        {error, _} ->
            {closed, disconnect(State)}
    end.

-spec understood(binary(), state()) -> {answer(), state()}.
understood(<<"admitted.\n">>, State) ->
    {ok, State};
understood(Line, State) ->
    case re:run(Line, "^refused\\((.*)\\)\\.\n$", [{capture, all_but_first, binary}]) of
        {match, [Reason]} -> {{refused, Reason}, State};
        nomatch -> give_up(say("the serial server answered ~0tp", [Line]), State)
    end.

%% What comes after all, late, must not be taken for the answer to the next: the connection is not used again.
-spec give_up(binary(), state()) -> {answer(), state()}.
give_up(Why, State) -> {{error, Why}, disconnect(State)}.

-spec disconnect(state()) -> state().
disconnect(#state{socket = Socket} = State) ->
    ok = gen_tcp:close(Socket),
    State#state{socket = none}.

%% A line of Prolog. Whatever the party is, it is one string of it and nothing else.
-spec request(binary(), binary(), non_neg_integer()) -> {ok, iodata()} | error.
request(Id, Party, Length) ->
    case {quoted(Id), quoted(Party)} of
        {error, _} -> error;
        {_, error} -> error;
        {QuotedId, QuotedParty} -> {ok, ["admit(", QuotedId, ", ", QuotedParty, ", ", integer_to_binary(Length), ").\n"]}
    end.

-spec quoted(binary()) -> iodata() | error.
quoted(Text) ->
    case unicode:characters_to_list(Text) of
        Characters when is_list(Characters) -> [$", [escaped(Character) || Character <- Characters], $"];
        _ -> error
    end.

-spec escaped(char()) -> iodata().
escaped($") -> "\\\"";
escaped($\\) -> "\\\\";
escaped(Character) when Character < 32; Character >= 127 -> io_lib:format("\\x~.16b\\", [Character]);
escaped(Character) -> Character.

-spec late(pos_integer()) -> binary().
late(Limit) -> say("the serial server did not answer within ~b ms", [Limit]).

-spec reason(inet:posix() | atom()) -> string().
reason(timeout) -> "no answer";
reason(Posix) -> inet:format_error(Posix).

-spec say(io:format(), [term()]) -> binary().
say(Format, Arguments) -> unicode:characters_to_binary(io_lib:format(Format, Arguments)).

-spec now_ms() -> integer().
now_ms() -> erlang:monotonic_time(millisecond).
