%% The parameters: their names, kinds, bounds and defaults in one table, read from the command line.
%%
%% Pure except for from_env/0, which reads the application's environment. It must not start, open or print
%% anything: what is wrong with an option is returned as a text.
-module(vsns_options).

-export([parse/1, from_env/0, defaults/0]).
-export_type([options/0]).

-type options() :: #{
    host := inet:ip_address(),
    port := inet:port_number(),
    inner_port := inet:port_number(),
    data := string(),
    state := process | ets | mnesia,
    sync := boolean(),
    coupling := calls | isolated,
    hub := off | fail_fast | wait | bounded,
    hub_tries := non_neg_integer(),
    hub_wait_ms := non_neg_integer(),
    schedulers := non_neg_integer(),
    frame_limit := pos_integer(),
    connections := pos_integer(),
    restarts := non_neg_integer(),
    restart_pause_ms := non_neg_integer(),
    max_processes := non_neg_integer(),
    max_ports := non_neg_integer(),
    open_files := non_neg_integer(),
    socket_buffers := non_neg_integer()
}.

-type kind() :: address | text | boolean | {choice, [atom()]} | {integer, integer(), integer()}.

-spec table() -> [{atom(), kind(), Default :: term()}].
table() ->
    [{host, address, {127, 0, 0, 1}},
     {port, {integer, 0, 65535}, 4100},
     %% 0: any free port. Only the hub, in this same node, has to find it.
     {inner_port, {integer, 0, 65535}, 0},
     {data, text, ""},
     {state, {choice, [process, ets, mnesia]}, ets},
     {sync, boolean, true},
     {coupling, {choice, [calls, isolated]}, calls},
     {hub, {choice, [off, fail_fast, wait, bounded]}, off},
     {hub_tries, {integer, 0, 1000000}, 3},
     {hub_wait_ms, {integer, 0, 60000}, 50},
     %% The start script has already given this one to the emulator; here it is only checked.
     {schedulers, {integer, 0, 1024}, 1},
     {frame_limit, {integer, 64, 67108864}, 1048576},
     {connections, {integer, 1, 1000000}, 10000},
     {restarts, {integer, 0, 1000000}, 1000},
     {restart_pause_ms, {integer, 0, 60000}, 0},
     %% The start script has given these to the emulator, too.
     {max_processes, {integer, 0, 134217727}, 0},
     {max_ports, {integer, 0, 134217727}, 0},
     {open_files, {integer, 0, 1073741816}, 0},
     %% 0: the kernel sizes them by itself, and better.
     {socket_buffers, {integer, 0, 1073741824}, 0}].

%% @doc The defaults.
-spec defaults() -> options().
defaults() ->
    maps:from_list([{Name, Default} || {Name, _, Default} <- table()]).

%% @doc What the application's environment says, over the defaults.
-spec from_env() -> options().
from_env() ->
    Known = maps:with(maps:keys(defaults()), maps:from_list(application:get_all_env(vsns))),
    maps:merge(defaults(), Known).

%% @doc Reads `--name value' pairs; a `-' in a name is a `_'.
-spec parse([string()]) -> {ok, options()} | {error, string()}.
parse(Arguments) ->
    case parse(Arguments, defaults()) of
        {ok, #{state := mnesia, data := ""}} -> {error, "--state mnesia needs --data FOLDER"};
        Result -> Result
    end.

-spec parse([string()], options()) -> {ok, options()} | {error, string()}.
parse([], Options) ->
    {ok, Options};
parse(["--" ++ Name | Rest], Options) ->
    Known = [Row || {Option, _, _} = Row <- table(), dashed(atom_to_list(Option)) =:= dashed(Name)],
    case {Known, Rest} of
        {[], _} ->
            {error, "unknown option --" ++ Name};
        {_, []} ->
            {error, "--" ++ Name ++ " needs a value"};
        {[{Option, Kind, _}], [Text | Others]} ->
            case value(Kind, Text) of
                {ok, Value} -> parse(Others, Options#{Option := Value});
                {expected, What} -> {error, expected(Name, What, Text)}
            end
    end;
parse([Word | _], _) ->
    {error, "not an option: " ++ Word}.

-spec expected(string(), string(), string()) -> string().
expected(Name, What, Text) ->
    lists:flatten(io_lib:format("--~ts: expected ~ts, got \"~ts\"", [Name, What, Text])).

-spec dashed(string()) -> string().
dashed(Name) ->
    [case C of $_ -> $-; _ -> C end || C <- Name].

-spec value(kind(), string()) -> {ok, term()} | {expected, string()}.
value(text, Text) ->
    {ok, Text};
value(address, Text) ->
    case inet:parse_address(Text) of
        {ok, Address} -> {ok, Address};
        {error, _} -> {expected, "an IP address"}
    end;
value(boolean, Text) ->
    value({choice, [true, false]}, Text);
value({choice, Of}, Text) ->
    case [Choice || Choice <- Of, atom_to_list(Choice) =:= Text] of
        [Choice] -> {ok, Choice};
        [] -> {expected, lists:append(lists:join(", ", [atom_to_list(C) || C <- Of]))}
    end;
value({integer, Min, Max}, Text) ->
    try list_to_integer(Text) of
        N when N >= Min, N =< Max -> {ok, N};
        _ -> {expected, between(Min, Max)}
    catch
        error:badarg -> {expected, between(Min, Max)}
    end.

-spec between(integer(), integer()) -> string().
between(Min, Max) ->
    lists:flatten(io_lib:format("a whole number from ~b to ~b", [Min, Max])).
