%% Whether a case may be created or modified: asks the serial server if there is one.
%%
%% It must not know how that one is asked (docket_serial).
-module(docket_admittance).

-export([set/1, ask/3]).

%% @doc Sets whether there is a serial server, once.
-spec set(docket_options:options()) -> ok.
set(#{serial := Serial}) -> persistent_term:put(?MODULE, Serial).

%% @doc Asks it.
-spec ask(docket_case:id(), docket_case:party(), non_neg_integer()) -> ok | {refused, term()} | {error, term()} | {aborted, term()}.
ask(Id, Party, Length) ->
    case persistent_term:get(?MODULE) of
        true -> docket_core:ask(docket_serial, admit, [Id, Party, Length]);
        false -> ok
    end.
