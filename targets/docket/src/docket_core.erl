%% The way from the web server to the register: a call in the same VM, or one into the member's other VM.
%%
%% The same functions either way.
-module(docket_core).

-export([node/0, ask/3, ask/4]).

-define(LONGEST_MS, 60000).

%% @doc Returns the node that the register is on.
-spec node() -> node().
node() ->
    case docket_options:is_web_only() of
        true -> docket_options:node_of(docket_options:get(host));
        false -> erlang:node()
    end.

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
