%% Whether a case may be created or modified: asks the serial server if there is one.
-module(docket_admittance).

-export([ask/3]).

%% @doc Asks it.
-spec ask(docket_case:id(), docket_case:party(), non_neg_integer()) -> ok | {refused, term()} | {error, term()} | {aborted, term()}.
ask(Id, Party, Length) ->
    case docket_options:get(serial) of
        true -> docket_core:ask(docket_serial, admit, [Id, Party, Length]);
        false -> ok
    end.
