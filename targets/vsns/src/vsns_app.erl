%% The application: checks its environment and starts the tree.
-module(vsns_app).
-behaviour(application).

-export([start/2, stop/1]).

%% @doc Starts the tree with the parameters of the application's environment.
-spec start(application:start_type(), term()) -> {ok, pid()} | {error, term()}.
start(_Type, _Arguments) ->
    case vsns_options:environment() of
        {ok, Options} ->
            case vsns_sup:start_link(Options) of
                {ok, Pid} -> {ok, Pid};
                {error, Reason} -> {error, Reason};
                ignore -> {error, ignore}
            end;
        {error, Text} ->
            {error, Text}
    end.

%% @doc Nothing is left to do.
-spec stop(term()) -> ok.
stop(_State) ->
    ok.
