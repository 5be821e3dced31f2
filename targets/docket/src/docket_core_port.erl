%% The member's other VM, seen from the web server's: started, watched, stopped.
%%
%% The two live and die together. The core's end ends this VM, with the same status; the end of this VM, however sudden, closes
%% the pipe, and docket_tie at the other end notices.
-module(docket_core_port).
-behaviour(gen_server).

-export([start_link/1]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2, terminate/2]).

-define(STOP_MS, 8000).

%% @doc Starts the core.
-spec start_link(docket_options:options()) -> gen_server:start_ret().
start_link(Options) ->
    gen_server:start_link({local, ?MODULE}, ?MODULE, Options, []).

%% @private
-spec init(docket_options:options()) -> {ok, port()}.
init(_) ->
    process_flag(trap_exit, true),
    Launcher = filename:join([filename:dirname(code:which(?MODULE)), "..", "bin", "docket"]),
    Arguments = init:get_plain_arguments() ++ ["--part", "core"],
    %% Its output is this VM's; the pipe is only there to end.
    {ok, open_port({spawn_executable, Launcher}, [{args, Arguments}, nouse_stdio, exit_status, binary])}.

%% @private
-spec handle_call(term(), gen_server:from(), port()) -> {noreply, port()}.
handle_call(_, _, Port) -> {noreply, Port}.

%% @private
-spec handle_cast(term(), port()) -> {noreply, port()}.
handle_cast(_, Port) -> {noreply, Port}.

%% @private
-spec handle_info(term(), port()) -> {noreply, port()}.
handle_info({Port, {exit_status, Status}}, Port) ->
    %% It has said why, unless it was killed.
    _ = [docket_log:say("its core ended with status ~b", [Status]) || Status =/= 1, Status =/= 2],
    erlang:halt(max(1, Status));
handle_info(_, Port) ->
    {noreply, Port}.

%% @private
-spec terminate(term(), port()) -> ok.
terminate(_, Port) ->
    true = port_command(Port, <<"stop">>),
    receive
        {Port, {exit_status, _}} -> ok
    after ?STOP_MS -> ok
    end.
