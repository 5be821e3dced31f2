%% One client of the hub: each request is delegated over a backend connection of its own.
%%
%% Here are the article's three designs of showing a failure to the client. `fail_fast': at once. `wait': not at
%% all, the client waits until it works. `bounded': after `hub_tries' more attempts, `hub_wait_ms' apart. What
%% counts as a failure: no connection, a connection closed before the answer, the answers `unavailable' and
%% `busy'. An attempt that failed may have been carried out, so retried requests are carried out at least once;
%% `oops' is never retried.
-module(vsns_hub_connection).
-behaviour(vsns_client).

-export([init/2, handle/4, info/2]).

-record(state, {
    client :: gen_tcp:socket(),
    design :: fail_fast | wait | bounded,
    tries :: non_neg_integer(),
    wait_ms :: non_neg_integer(),
    backend = none :: vsns_backend:backend()
}).

-type left() :: non_neg_integer() | infinity.

%% @doc No backend connection before the first request.
-spec init(gen_tcp:socket(), vsns_options:options()) -> #state{}.
init(Client, #{hub := Design, hub_tries := Tries, hub_wait_ms := Wait}) when Design =/= off ->
    #state{client = Client, design = Design, tries = Tries, wait_ms = Wait}.

%% @doc Delegates, as often as the design says.
-spec handle(vsns_frame:id(), vsns_frame:request(), binary(), #state{}) -> {answer, iodata(), #state{}} | close.
handle(Id, Request, Frame, State) ->
    attempt(Id, Frame, retries(Request, State), State).

-spec retries(vsns_frame:request(), #state{}) -> left().
retries(oops, _) -> 0;
retries(_, #state{design = fail_fast}) -> 0;
retries(_, #state{design = wait}) -> infinity;
retries(_, #state{design = bounded, tries = Tries}) -> Tries.

-spec attempt(vsns_frame:id(), binary(), left(), #state{}) -> {answer, iodata(), #state{}} | close.
attempt(Id, Frame, Left, #state{backend = Backend, client = Client} = State) ->
    case vsns_backend:ask(Id, Frame, Client, Backend) of
        {ok, Answer, Now} ->
            {answer, [<<(byte_size(Answer)):32>>, Answer], State#state{backend = Now}};
        {failed, Why, Now} when Left =:= 0 ->
            {answer, vsns_frame:answer(Id, {unavailable, Why}), State#state{backend = Now}};
        {failed, _, Now} ->
            pause(State),
            attempt(Id, Frame, one_less(Left), State#state{backend = Now});
        client_gone ->
            exit(normal)
    end.

-spec one_less(left()) -> left().
one_less(infinity) -> infinity;
one_less(N) -> N - 1.

%% Waits, but not for a client that has gone: its connection, and with it the retrying, ends here.
-spec pause(#state{}) -> ok.
pause(#state{client = Client, wait_ms = Wait}) ->
    receive
        {tcp_closed, Client} -> exit(normal);
        {tcp_error, Client, _} -> exit(normal)
    after Wait -> ok
    end.

%% @doc The backend connection was closed while it was idle: the next request opens another.
-spec info(term(), #state{}) -> #state{}.
info(Message, #state{backend = Backend} = State) ->
    State#state{backend = vsns_backend:info(Message, Backend)}.
