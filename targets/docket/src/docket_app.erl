%% The application: starts the tree, and nothing else.
%%
%% It must not read the command line (docket_main) or know what the tree is made of (docket_sup).
-module(docket_app).
-behaviour(application).

-export([start/2, stop/1]).

%% @doc Starts the tree with the options that the application's environment has.
-spec start(application:start_type(), term()) -> {ok, pid()} | {error, term()}.
start(_Type, _Arguments) ->
    {ok, Options} = application:get_env(docket, options),
    case docket_sup:start_link(Options) of
        {ok, Pid} -> {ok, Pid};
        {error, Reason} -> {error, Reason};
        ignore -> {error, ignore}
    end.

%% @doc Nothing is left to do.
-spec stop(term()) -> ok.
stop(_State) ->
    ok.
