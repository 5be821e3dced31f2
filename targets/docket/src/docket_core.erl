%% The way from the web server to the register: a call in the same VM, or one into the member's other VM.
%%
%% The same functions either way. It must not know what is asked.
-module(docket_core).

-export([is/1, node/0, ask/3, ask/4]).

-define(LONGEST_MS, 60000).

%% @doc Says which node the register is on; this one if both are together.
-spec is(node()) -> ok.
is(Node) -> persistent_term:put(?MODULE, Node).

%% @doc Which node the register is on.
-spec node() -> node().
node() -> persistent_term:get(?MODULE).

%% @doc Calls a function where the register is.
-spec ask(module(), atom(), [term()]) -> term() | {aborted, term()}.
ask(Module, Function, Arguments) -> ask(Module, Function, Arguments, ?LONGEST_MS).

%% @doc The same, with the milliseconds that the other VM is given.
-spec ask(module(), atom(), [term()], pos_integer()) -> term() | {aborted, term()}.
ask(Module, Function, Arguments, LongestMs) ->
    case ?MODULE:node() of
        Here when Here =:= erlang:node() ->
            apply(Module, Function, Arguments);
        Core ->
            try
                erpc:call(Core, Module, Function, Arguments, LongestMs)
            catch
                error:{erpc, Reason} -> {aborted, {core, Reason}}
            end
    end.
