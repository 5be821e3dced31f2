%% The client's side of a connection: frames in, answers out, the limits, the close.
%%
%% A behaviour: what a request means is the callback module's (vsns_connection answers it from the names,
%% vsns_hub_connection delegates it). It ends quietly whatever a client sends: `normal' and `{shutdown, _}' exits are not
%% reported by anyone. A special process (sys) and no gen_server, so that nothing stands between a socket and its frames.
-module(vsns_client).

-export([start_link/4, go/1, init/5]).
-export([system_continue/3, system_terminate/4, system_code_change/4]).

%% A frame that is a request, and the answer as a whole frame. `close': the connection ends without an answer.
-callback init(gen_tcp:socket(), vsns_options:options()) -> State :: term().
-callback handle(vsns_frame:id(), vsns_frame:request(), Frame :: binary(), State :: term()) ->
    {answer, iodata(), State :: term()} | close.
%% Any other message in the mailbox.
-callback info(term(), State :: term()) -> State :: term().

%% Messages with data from the socket before it has to be asked for more: enough that asking costs little, few
%% enough that a client cannot fill the mailbox.
-define(ACTIVE, 32).
%% Answers to pipelined requests are collected up to this size.
-define(ANSWERS, 65536).

-record(client, {
    parent :: pid(),
    role :: vsns_listener_sup:role(),
    options :: vsns_options:options(),
    %% Whether this process owns the socket.
    going = false :: boolean(),
    socket :: gen_tcp:socket(),
    limit :: pos_integer(),
    module :: module(),
    state = none :: term(),
    %% The beginning of a frame: its parts (latest first), their size, and the size at which to look again.
    parts = [] :: [binary()],
    size = 0 :: non_neg_integer(),
    wanted = 4 :: pos_integer()
}).

%% @doc Starts the process of a connection. It does nothing before go/1.
-spec start_link(vsns_listener_sup:role(), module(), vsns_options:options(), gen_tcp:socket()) -> {ok, pid()} | {error, term()}.
start_link(Role, Module, Options, Socket) ->
    proc_lib:start_link(?MODULE, init, [self(), Role, Module, Options, Socket]).

%% @doc Tells it that the socket is its own now.
-spec go(pid()) -> ok.
go(Pid) ->
    Pid ! go,
    ok.

%% @private
-spec init(pid(), vsns_listener_sup:role(), module(), vsns_options:options(), gen_tcp:socket()) -> no_return().
init(Parent, Role, Module, #{frame_limit := Limit} = Options, Socket) ->
    proc_lib:init_ack({ok, self()}),
    loop(#client{parent = Parent, role = Role, options = Options, socket = Socket, limit = Limit, module = Module}).

-spec begin_(#client{}) -> #client{}.
begin_(#client{role = Role, options = Options, socket = Socket, module = Module} = Client) ->
    case vsns_connection_tally:admit(Role) of
        ok ->
            ask(Client),
            Client#client{going = true, state = Module:init(Socket, Options)};
        busy ->
            _ = gen_tcp:send(Socket, vsns_frame:answer(0, busy)),
            finish(Socket)
    end.

-spec ask(#client{}) -> ok.
ask(#client{socket = Socket}) ->
    case inet:setopts(Socket, [{active, ?ACTIVE}]) of
        ok -> ok;
        {error, _} -> finish(Socket)
    end.

-spec loop(#client{}) -> no_return().
loop(#client{going = false, parent = Parent} = Client) ->
    receive
        go -> loop(begin_(Client));
        {system, From, Request} -> sys:handle_system_msg(Request, From, Parent, ?MODULE, [], Client)
    end;
loop(#client{socket = Socket, module = Module, state = State} = Client) ->
    receive
        {tcp, Socket, Data} ->
            loop(received(Data, Client));
        {tcp_passive, Socket} ->
            ask(Client),
            loop(Client);
        {tcp_closed, Socket} ->
            exit(normal);
        {tcp_error, Socket, _} ->
            finish(Socket);
        {system, From, Request} ->
            sys:handle_system_msg(Request, From, Client#client.parent, ?MODULE, [], Client);
        Other ->
            loop(Client#client{state = Module:info(Other, State)})
    end.

%% @private
-spec system_continue(pid(), [sys:dbg_opt()], #client{}) -> no_return().
system_continue(_Parent, _Debug, Client) ->
    loop(Client).

%% @private
-spec system_terminate(term(), pid(), [sys:dbg_opt()], #client{}) -> no_return().
system_terminate(Reason, _Parent, _Debug, _Client) ->
    exit(Reason).

%% @private
-spec system_code_change(#client{}, module(), term(), term()) -> {ok, #client{}}.
system_code_change(Client, _Module, _Before, _Extra) ->
    {ok, Client}.

%% Parts of a large frame are joined once, when it is complete.
-spec received(binary(), #client{}) -> #client{}.
received(Data, #client{parts = [], size = 0} = Client) ->
    frames(Data, [], 0, Client);
received(Data, #client{parts = Parts, size = Size, wanted = Wanted} = Client) ->
    case Size + byte_size(Data) of
        Enough when Enough >= Wanted ->
            Joined = iolist_to_binary(lists:reverse(Parts, [Data])),
            frames(Joined, [], 0, Client#client{parts = [], size = 0});
        Less ->
            Client#client{parts = [Data | Parts], size = Less}
    end.

%% All the complete frames that have arrived, and their answers in one send.
-spec frames(binary(), iodata(), non_neg_integer(), #client{}) -> #client{}.
frames(Buffer, Answers, Size, Client) when Size >= ?ANSWERS ->
    send(Answers, Client),
    frames(Buffer, [], 0, Client);
frames(Buffer, Answers, Size, #client{limit = Limit} = Client) ->
    case vsns_frame:next(Buffer, Limit) of
        {frame, Frame, Rest} ->
            {Answer, Next} = request(Frame, Answers, Client),
            collect(Rest, Answers, Answer, Size, Next);
        {more, Wanted} ->
            send(Answers, Client),
            keep(Buffer, Wanted, Client);
        {too_large, Id} ->
            send([Answers, vsns_frame:answer(Id, too_large)], Client),
            finish(Client#client.socket)
    end.

-spec collect(binary(), iodata(), iodata(), non_neg_integer(), #client{}) -> #client{}.
collect(<<>>, [], Answer, _, Client) ->
    %% One request, one answer: nearly always.
    send(Answer, Client),
    Client;
collect(Rest, Answers, Answer, Size, Client) ->
    frames(Rest, [Answers, Answer], Size + iolist_size(Answer), Client).

-spec keep(binary(), pos_integer(), #client{}) -> #client{}.
keep(<<>>, _, Client) -> Client;
keep(Buffer, Wanted, Client) -> Client#client{parts = [Buffer], size = byte_size(Buffer), wanted = Wanted}.

-spec request(binary(), iodata(), #client{}) -> {iodata(), #client{}}.
request(Frame, Answers, #client{module = Module, state = State} = Client) ->
    case vsns_frame:request(Frame) of
        {bad, Id, Text} ->
            {vsns_frame:answer(Id, {bad_request, Text}), Client};
        {Id, Request} ->
            case Module:handle(Id, Request, Frame, State) of
                {answer, Answer, Next} ->
                    {Answer, Client#client{state = Next}};
                close ->
                    %% What was answered before still goes out.
                    send(Answers, Client),
                    exit({shutdown, cut_off})
            end
    end.

-spec send(iodata(), #client{}) -> ok.
send([], _) ->
    ok;
send(Answers, #client{socket = Socket}) ->
    case gen_tcp:send(Socket, Answers) of
        ok -> ok;
        {error, _} -> finish(Socket)
    end.

-spec finish(gen_tcp:socket()) -> no_return().
finish(Socket) ->
    ok = gen_tcp:close(Socket),
    exit(normal).
