%% The application: checks its environment and starts the tree.
-module(docket_app).
-behaviour(application).

-export([start/2, stop/1]).

%% @doc Starts the tree with the parameters of the application's environment.
-spec start(application:start_type(), term()) -> {ok, pid()} | {error, term()}.
start(_Type, _Arguments) ->
    case docket_options:environment() of
        {ok, Options} -> start(Options);
        {error, Text} -> {error, Text}
    end.

-spec start(docket_options:options()) -> {ok, pid()} | {error, term()}.
start(Options) ->
    case misnamed(Options) of
        false ->
            ok = docket_tally:new(),
            case docket_sup:start_link(Options) of
                {ok, Pid} -> {ok, Pid};
                {error, Reason} -> {error, Reason};
                ignore -> {error, ignore}
            end;
        Own ->
            {error, lists:flatten(io_lib:format("this node is called ~ts; among other members it has to be ~ts", [node(), Own]))}
    end.

%% Members find each other by their addresses. A single one may have any name, or none.
-spec misnamed(docket_options:options()) -> false | node().
misnamed(#{host := Host, members := [_, _ | _]}) ->
    Own = docket_options:node_of(Host),
    node() =/= Own andalso not docket_options:is_web_only() andalso Own;
misnamed(_) ->
    false.

%% @doc Nothing is left to do.
-spec stop(term()) -> ok.
stop(_State) ->
    ok.
