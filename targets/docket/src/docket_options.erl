%% The parameters: read from the application's environment, and from the command line over it.
%%
%% Their defaults are the environment of docket.app.src. A value that is not valid is reported as a text.
-module(docket_options).

-export([environment/0, parse/1, get/1, is_web_only/0, address/1, node_of/1]).
-export_type([options/0, mode/0]).

-type mode() :: transaction | sync_transaction | async_dirty | sync_dirty.

-type options() :: #{
    host := inet:ip4_address(),
    http_port := inet:port_number(),
    distribution_port := inet:port_number(),
    serial_port := inet:port_number(),
    members := [inet:ip4_address()],
    data := string(),
    write := mode(),
    read := mode(),
    copies := ram | disc,
    dump_writes := pos_integer(),
    dump_s := pos_integer(),
    layout := together | web_and_core,
    admission := non_neg_integer(),
    work_ms := number(),
    serial := boolean(),
    cores := non_neg_integer(),
    part := all | core
}.

-type kind() :: address | addresses | text | boolean | {choice, [atom()]} | {integer | number, integer(), integer()}.

%% Every member has a copy of everything and a connection to every other. More than this is a mistake in a list.
-define(MOST_MEMBERS, 32).

-define(MODES, {choice, [transaction, sync_transaction, async_dirty, sync_dirty]}).

-spec table() -> [{atom(), kind()}].
table() ->
    [{host, address},
     {http_port, {integer, 1, 65535}},
     {distribution_port, {integer, 1, 65535}},
     {serial_port, {integer, 1, 65535}},
     {members, addresses},
     {data, text},
     {write, ?MODES},
     {read, ?MODES},
     {copies, {choice, [ram, disc]}},
     {dump_writes, {integer, 1, 1000000000}},
     {dump_s, {integer, 1, 86400}},
     {layout, {choice, [together, web_and_core]}},
     {admission, {integer, 0, 1000000}},
     {work_ms, {number, 0, 60000}},
     {serial, boolean},
     %% The start script has already given this one to the emulator; here it is only checked.
     {cores, {integer, 0, 1024}},
     %% With layout web_and_core the web server's VM starts the register's VM with `core'. Not for users.
     {part, {choice, [all, core]}}].

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
    _ = application:load(docket),
    maps:with([Name || {Name, _} <- table()], maps:from_list(application:get_all_env(docket))).

%% @doc Reads `--name value' pairs over the application's environment; a `-' in a name is a `_'.
-spec parse([string()]) -> {ok, options()} | {error, string()}.
parse(Arguments) ->
    case parse(Arguments, given()) of
        {ok, Options} -> check(Options);
        Error -> Error
    end.

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

%% @doc Returns one parameter of the application's environment.
-spec get(atom()) -> term().
get(Name) ->
    {ok, Value} = application:get_env(docket, Name),
    Value.

%% @doc Whether the register is in the member's other VM.
-spec is_web_only() -> boolean().
is_web_only() -> docket_options:get(layout) =:= web_and_core andalso docket_options:get(part) =:= all.

%% What no option alone can say.
-spec check(options()) -> {ok, options()} | {error, string()}.
check(#{host := Host, members := []} = Options) ->
    check(Options#{members := [Host]});
check(#{host := Host, members := Members} = Options) ->
    Twice = Members -- lists:usort(Members),
    case Options of
        _ when length(Members) > ?MOST_MEMBERS ->
            {error, format("--members: ~b of them, and at most ~b can serve together", [length(Members), ?MOST_MEMBERS])};
        _ when Twice =/= [] ->
            {error, format("--members: ~ts is in it twice", [address(hd(Twice))])};
        _ ->
            case {lists:member(Host, Members), Options} of
                {false, _} ->
                    {error, format("--host: ~ts is not one of --members ~ts", [address(Host), addresses(Members)])};
                {true, #{data := "", copies := disc}} ->
                    {error, "--copies disc needs --data FOLDER"};
                {true, _} ->
                    {ok, Options}
            end
    end.

%% @doc An address as it is written.
-spec address(inet:ip4_address()) -> string().
address(Address) -> inet:ntoa(Address).

%% @doc The name of the node at an address that is a member of the cluster.
-spec node_of(inet:ip4_address()) -> node().
node_of(Address) -> list_to_atom("docket@" ++ address(Address)).

-spec addresses([inet:ip4_address()]) -> string().
addresses(Addresses) -> lists:append(lists:join(",", [address(A) || A <- Addresses])).

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
    case inet:parse_ipv4strict_address(Text) of
        {ok, Address} -> Address;
        {error, _} -> error
    end;
value(addresses, Text) ->
    [value(address, Word) || Word <- string:split(Text, ",", all)];
value(boolean, Text) ->
    value({choice, [true, false]}, Text);
value({choice, Of}, Text) ->
    case [Choice || Choice <- Of, atom_to_list(Choice) =:= Text] of
        [Choice] -> Choice;
        [] -> error
    end;
value({_, _, _}, Text) ->
    case {string:to_integer(Text), string:to_float(Text)} of
        {{Whole, ""}, _} when is_integer(Whole) -> Whole;
        {_, {Decimal, ""}} when is_float(Decimal) -> Decimal;
        _ -> error
    end.

-spec fits(kind(), term()) -> boolean().
fits(text, Value) -> io_lib:printable_unicode_list(Value);
fits(address, Value) -> inet:is_ipv4_address(Value);
fits(addresses, Value) -> is_list(Value) andalso lists:all(fun inet:is_ipv4_address/1, Value);
fits(boolean, Value) -> is_boolean(Value);
fits({choice, Of}, Value) -> lists:member(Value, Of);
fits({integer, Min, Max}, Value) -> is_integer(Value) andalso Value >= Min andalso Value =< Max;
fits({number, Min, Max}, Value) -> is_number(Value) andalso Value >= Min andalso Value =< Max.

-spec expected(kind()) -> string().
expected(text) -> "a text";
expected(address) -> "an IPv4 address";
expected(addresses) -> "IPv4 addresses, separated by commas";
expected(boolean) -> "true, false";
expected({choice, Of}) -> lists:append(lists:join(", ", [atom_to_list(C) || C <- Of]));
expected({integer, Min, Max}) -> format("a whole number from ~b to ~b", [Min, Max]);
expected({number, Min, Max}) -> format("a number from ~b to ~b", [Min, Max]).
