%% The member's other VM, seen from the core: when the web server's is gone, so is this one.
%%
%% Asked to stop it stops in order; a pipe that just closes is a crash, and then this is one, too.
-module(docket_tie).
-behaviour(gen_server).

-export([start_link/0]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2]).

%% @doc Ties this VM to the one that started it.
-spec start_link() -> gen_server:start_ret().
start_link() ->
    gen_server:start_link({local, ?MODULE}, ?MODULE, [], []).

%% @private
-spec init([]) -> {ok, port()}.
init([]) ->
    {ok, open_port({fd, 3, 4}, [in, eof, binary])}.

%% @private
-spec handle_call(term(), gen_server:from(), port()) -> {noreply, port()}.
handle_call(_, _, Port) -> {noreply, Port}.

%% @private
-spec handle_cast(term(), port()) -> {noreply, port()}.
handle_cast(_, Port) -> {noreply, Port}.

%% @private
-spec handle_info(term(), port()) -> {noreply, port()}.
handle_info({Port, {data, _}}, Port) ->
    ok = init:stop(),
    {noreply, Port};
handle_info({Port, eof}, Port) ->
    case init:get_status() of
        {stopping, _} -> {noreply, Port};
        _ -> erlang:halt(1, [{flush, false}])
    end;
handle_info(_, Port) ->
    {noreply, Port}.
