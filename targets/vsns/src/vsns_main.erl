%% The start from the command line: puts the options into the application's environment, starts the application, says so.
%%
%% A shell, a test or a release starts the application without it.
-module(vsns_main).

-export([start/0]).

%% @doc What bin/vsns runs.
-spec start() -> ok | no_return().
start() ->
    case vsns_options:parse(init:get_plain_arguments()) of
        {ok, Options} -> start(Options);
        {error, Text} -> give_up(2, Text)
    end.

-spec start(vsns_options:options()) -> ok | no_return().
start(Options) ->
    maps:foreach(fun(Name, Value) -> ok = application:set_env(vsns, Name, Value) end, Options),
    %% Until the tree stands, what goes wrong is said once, below, and not by each supervisor on the way.
    _ = logger:remove_handler(default),
    case application:start(vsns, permanent) of
        ok ->
            ok = vsns_log:install(),
            logger:notice("~ts", [standing(Options)]);
        {error, Reason} ->
            give_up(1, explain(Reason))
    end.

-spec standing(vsns_options:options()) -> iodata().
standing(#{host := Host, state := State, coupling := Coupling, hub := Hub}) ->
    Front = case Hub of off -> service; _ -> hub end,
    io_lib:format("listening on ~s:~b, state ~s, coupling ~s, hub ~s",
                  [inet:ntoa(Host), vsns_listener_sup:port(Front), State, Coupling, Hub]).

%% A reason that is meant for the reader is somewhere inside the ones of the supervisors above it.
-spec explain(term()) -> unicode:chardata().
explain(Reason) ->
    case find(Reason) of
        {ok, Text} -> Text;
        none -> io_lib:format("cannot start: ~0tp", [Reason])
    end.

-spec find(term()) -> {ok, unicode:chardata()} | none.
find({vsns_cannot, Text}) -> {ok, Text};
find(Tuple) when is_tuple(Tuple) -> find(tuple_to_list(Tuple));
find([Head | Tail]) ->
    case find(Head) of
        none -> find(Tail);
        Found -> Found
    end;
find(_) -> none.

-spec give_up(1 | 2, unicode:chardata()) -> no_return().
give_up(Code, Text) ->
    io:put_chars(standard_error, ["vsns: ", Text, "\n"]),
    erlang:halt(Code).
