%% The application: starts the tree, and nothing else.
%%
%% It must not read the command line (vsns_main) or know what the tree is made of (vsns_sup).
-module(vsns_app).
-behaviour(application).

-export([start/2, stop/1]).

%% @doc Starts the tree with the application's environment.
-spec start(application:start_type(), term()) -> {ok, pid()} | {error, term()}.
start(_Type, _Arguments) ->
    case vsns_sup:start_link(vsns_options:from_env()) of
        {ok, Pid} -> {ok, Pid};
        {error, Reason} -> {error, Reason};
        ignore -> {error, ignore}
    end.

%% @doc Nothing is left to do.
-spec stop(term()) -> ok.
stop(_State) ->
    ok.
