%% The parameters: read from the application's environment, and from the command line over it.
%%
%% Their defaults are the environment of vsns.app.src. A value that is not valid is reported as a text.
-module(vsns_options).

-export([environment/0, parse/1]).
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

-spec table() -> [{atom(), kind()}].
table() ->
    [{host, address},
     {port, {integer, 0, 65535}},
     {inner_port, {integer, 0, 65535}},
     {data, text},
     {state, {choice, [process, ets, mnesia]}},
     {sync, boolean},
     {coupling, {choice, [calls, isolated]}},
     {hub, {choice, [off, fail_fast, wait, bounded]}},
     {hub_tries, {integer, 0, 1000000}},
     {hub_wait_ms, {integer, 0, 60000}},
     %% The start script has already given this one to the emulator; here it is only checked.
     {schedulers, {integer, 0, 1024}},
     {frame_limit, {integer, 64, 67108864}},
     {connections, {integer, 1, 1000000}},
     {restarts, {integer, 0, 1000000}},
     {restart_pause_ms, {integer, 0, 60000}},
     %% The start script has given these to the emulator, too.
     {max_processes, {integer, 0, 134217727}},
     {max_ports, {integer, 0, 134217727}},
     {open_files, {integer, 0, 1073741816}},
     {socket_buffers, {integer, 0, 1073741824}}].

%% @doc Returns the parameters of the application's environment, or the reason that a value is not valid.
-spec environment() -> {ok, options()} | {error, string()}.
environment() ->
    Options = given(),
    case [Row || {Name, Kind} = Row <- table(), not fits(Kind, maps:get(Name, Options, undefined))] of
        [] -> check(Options);
        [{Name, Kind} | _] ->
            {error, format("~ts: expected ~ts, got ~0tp", [Name, expected(Kind), maps:get(Name, Options, undefined)])}
    end.

-spec given() -> options().
given() ->
    _ = application:load(vsns),
    maps:with([Name || {Name, _} <- table()], maps:from_list(application:get_all_env(vsns))).

%% @doc Reads `--name value' pairs over the application's environment; a `-' in a name is a `_'.
-spec parse([string()]) -> {ok, options()} | {error, string()}.
parse(Arguments) ->
    case parse(Arguments, given()) of
        {ok, Options} -> check(Options);
        Error -> Error
    end.

-spec check(options()) -> {ok, options()} | {error, string()}.
check(#{state := mnesia, data := ""}) -> {error, "--state mnesia needs --data FOLDER"};
check(Options) -> {ok, Options}.

-spec parse([string()], options()) -> {ok, options()} | {error, string()}.
parse([], Options) ->
    {ok, Options};
parse(["--" ++ Name | Rest], Options) ->
    Known = [Row || {Option, _} = Row <- table(), dashed(atom_to_list(Option)) =:= dashed(Name)],
    case {Known, Rest} of
        {[], _} ->
            {error, "unknown option --" ++ Name};
        {_, []} ->
            {error, "--" ++ Name ++ " needs a value"};
        {[{Option, Kind}], [Text | Others]} ->
            Value = value(Kind, Text),
            case fits(Kind, Value) of
                true -> parse(Others, Options#{Option => Value});
                false -> {error, format("--~ts: expected ~ts, got \"~ts\"", [Name, expected(Kind), Text])}
            end
    end;
parse([Word | _], _) ->
    {error, "not an option: " ++ Word}.

-spec format(string(), [term()]) -> string().
format(Format, Arguments) -> lists:flatten(io_lib:format(Format, Arguments)).

-spec dashed(string()) -> string().
dashed(Name) ->
    [case C of $_ -> $-; _ -> C end || C <- Name].

%% `error' if the text cannot be read as such a value.
-spec value(kind(), string()) -> term().
value(text, Text) ->
    Text;
value(address, Text) ->
    case inet:parse_address(Text) of
        {ok, Address} -> Address;
        {error, _} -> error
    end;
value(boolean, Text) ->
    value({choice, [true, false]}, Text);
value({choice, Of}, Text) ->
    case [Choice || Choice <- Of, atom_to_list(Choice) =:= Text] of
        [Choice] -> Choice;
        [] -> error
    end;
value({integer, _, _}, Text) ->
    case string:to_integer(Text) of
        {Whole, ""} when is_integer(Whole) -> Whole;
        _ -> error
    end.

-spec fits(kind(), term()) -> boolean().
fits(text, Value) -> io_lib:printable_unicode_list(Value);
fits(address, Value) -> inet:is_ip_address(Value);
fits(boolean, Value) -> is_boolean(Value);
fits({choice, Of}, Value) -> lists:member(Value, Of);
fits({integer, Min, Max}, Value) -> is_integer(Value) andalso Value >= Min andalso Value =< Max.

-spec expected(kind()) -> string().
expected(text) -> "a text";
expected(address) -> "an IP address";
expected(boolean) -> "true, false";
expected({choice, Of}) -> lists:append(lists:join(", ", [atom_to_list(C) || C <- Of]));
expected({integer, Min, Max}) -> format("a whole number from ~b to ~b", [Min, Max]).
