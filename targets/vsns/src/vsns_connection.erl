%% One client of the name service: each request is a call to the name server.
%%
%% Here is `coupling', what a connection does when its call fails because the name server crashed. `calls': it
%% dies of it, and its socket with it, as in the article. `isolated': its client gets the answer `unavailable',
%% and the connection lives. A connection without a call in flight does not notice a crash.
-module(vsns_connection).
-behaviour(vsns_client).

-export([init/2, handle/4, info/2]).

-record(state, {coupling :: calls | isolated, link = none :: vsns_name_server:link()}).

%% @doc Not yet linked to a name server.
-spec init(gen_tcp:socket(), vsns_options:options()) -> #state{}.
init(_Socket, #{coupling := Coupling}) ->
    #state{coupling = Coupling}.

%% @doc Calls the name server with the request.
-spec handle(vsns_frame:id(), vsns_frame:request(), binary(), #state{}) -> {answer, iodata(), #state{}} | close.
handle(Id, Request, _Frame, #state{link = Link, coupling = Coupling} = State) ->
    case {vsns_name_server:call(Request, Link), Coupling} of
        {{ok, {counts, Names, Spaces}, Now}, _} ->
            {answer, vsns_frame:answer(Id, {text, vsns_stats:json(Names, Spaces)}), State#state{link = Now}};
        {{ok, Answer, Now}, _} ->
            {answer, vsns_frame:answer(Id, Answer), State#state{link = Now}};
        {{down, _}, calls} ->
            close;
        {{down, Reason}, isolated} ->
            Text = io_lib:format("name server down: ~0p", [Reason]),
            {answer, vsns_frame:answer(Id, {unavailable, Text}), State#state{link = none}}
    end.

%% @doc The name server ended while no call was in flight: the next call finds its successor.
-spec info(term(), #state{}) -> #state{}.
info(Message, #state{link = Link} = State) ->
    case vsns_name_server:gone(Message, Link) of
        true -> State#state{link = none};
        false -> State
    end.
