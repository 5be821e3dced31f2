%% The parameters: their names, kinds, bounds and defaults in one table, read from the command line.
%%
%% Pure. It must not start, open or print anything: what is wrong with an option is returned as a text.
-module(docket_options).

-export([parse/1, defaults/0, address/1, node_of/1]).
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

-spec table() -> [{atom(), kind(), Default :: term()}].
table() ->
    [{host, address, {127, 0, 0, 1}},
     {http_port, {integer, 1, 65535}, 4380},
     {distribution_port, {integer, 1, 65535}, 4370},
     {serial_port, {integer, 1, 65535}, 4390},
     %% None: it is the only one.
     {members, addresses, []},
     {data, text, ""},
     {write, ?MODES, transaction},
     {read, ?MODES, transaction},
     {copies, {choice, [ram, disc]}, disc},
     %% OTP's own defaults.
     {dump_writes, {integer, 1, 1000000000}, 1000},
     {dump_s, {integer, 1, 86400}, 180},
     {layout, {choice, [together, web_and_core]}, together},
     {admission, {integer, 0, 1000000}, 0},
     {work_ms, {number, 0, 60000}, 0},
     {serial, boolean, false},
     %% The start script has already given this one to the emulator; here it is only checked.
     {cores, {integer, 0, 1024}, 0},
     %% With layout web_and_core the web server's VM starts the register's VM with `core'. Not for users.
     {part, {choice, [all, core]}, all}].

%% @doc The defaults.
-spec defaults() -> options().
defaults() ->
    maps:from_list([{Name, Default} || {Name, _, Default} <- table()]).

%% @doc Reads `--name value' pairs; a `-' in a name is a `_'.
-spec parse([string()]) -> {ok, options()} | {error, string()}.
parse(Arguments) ->
    case parse(Arguments, defaults()) of
        {ok, #{members := [], host := Host} = Options} -> check(Options#{members := [Host]});
        {ok, Options} -> check(Options);
        Error -> Error
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
                {expected, What} -> {error, format("--~ts: expected ~ts, got \"~ts\"", [Name, What, Text])}
            end
    end;
parse([Word | _], _) ->
    {error, "not an option: " ++ Word}.

%% What no option alone can say.
-spec check(options()) -> {ok, options()} | {error, string()}.
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

-spec value(kind(), string()) -> {ok, term()} | {expected, string()}.
value(text, Text) ->
    {ok, Text};
value(address, Text) ->
    case inet:parse_ipv4strict_address(Text) of
        {ok, Address} -> {ok, Address};
        {error, _} -> {expected, "an IPv4 address"}
    end;
value(addresses, Text) ->
    Read = [value(address, Word) || Word <- string:split(Text, ",", all)],
    case [Address || {ok, Address} <- Read] of
        Addresses when length(Addresses) =:= length(Read) -> {ok, Addresses};
        _ -> {expected, "IPv4 addresses, separated by commas"}
    end;
value(boolean, Text) ->
    value({choice, [true, false]}, Text);
value({choice, Of}, Text) ->
    case [Choice || Choice <- Of, atom_to_list(Choice) =:= Text] of
        [Choice] -> {ok, Choice};
        [] -> {expected, lists:append(lists:join(", ", [atom_to_list(C) || C <- Of]))}
    end;
value({Kind, Min, Max}, Text) ->
    case read(Kind, Text) of
        N when is_number(N), N >= Min, N =< Max -> {ok, N};
        _ -> {expected, format("~ts from ~b to ~b", [case Kind of integer -> "a whole number"; number -> "a number" end, Min, Max])}
    end.

-spec read(integer | number, string()) -> number() | error.
read(Kind, Text) ->
    case {string:to_integer(Text), string:to_float(Text)} of
        {{Whole, ""}, _} when is_integer(Whole) -> Whole;
        {_, {Decimal, ""}} when Kind =:= number, is_float(Decimal) -> Decimal;
        _ -> error
    end.
