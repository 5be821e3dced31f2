%% What the member is and how it sees the others, as a JSON object.
-module(docket_inspect).

-export([json/0, facts/0]).

-define(WAIT_MS, 3000).

%% @doc The object.
-spec json() -> iodata().
json() ->
    {ok, Options} = docket_options:environment(),
    Register = case docket_core:ask(?MODULE, facts, [], ?WAIT_MS) of
        {aborted, Reason} -> [{unknown, text("~0tp", [Reason])}];
        Facts -> Facts
    end,
    mochijson2:encode({struct, [{versions, {struct, versions()}}, {settings, {struct, settings(Options)}} | Register]}).

%% @doc What is known where the register is.
-spec facts() -> [{atom(), term()}].
facts() ->
    {ok, #{members := Members, host := Host}} = docket_options:environment(),
    Running = running(),
    Ready = docket_cluster:ready(),
    Seen = [begin
        Node = node_at(Address, Host),
        {struct, [{address, list_to_binary(docket_options:address(Address))},
                  {self, Address =:= Host},
                  {connected, Node =:= node() orelse lists:member(Node, nodes())},
                  {in_cluster, lists:member(Node, Running)}]}
    end || Address <- Members],
    %% Reachable and yet not together: that is what Mnesia leaves of a split brain.
    Apart = [list_to_binary(docket_options:address(A)) || A <- Members, A =/= Host,
             lists:member(docket_options:node_of(A), nodes()), not lists:member(docket_options:node_of(A), Running)],
    [{node, node()},
     {ready, Ready =:= true},
     {waits_for, case Ready of true -> null; _ -> unicode:characters_to_binary(Ready) end},
     {members, Seen},
     {apart_from, Apart},
     {inconsistent_database, docket_tally:get(inconsistent)},
     {tables, {struct, [{Table, {struct, table(Table)}} || Running =/= [], Table <- mnesia:system_info(tables), Table =/= schema]}}].

-spec node_at(inet:ip4_address(), Own :: inet:ip4_address()) -> node().
node_at(Own, Own) -> node();
node_at(Address, _) -> docket_options:node_of(Address).

-spec running() -> [node()].
running() ->
    try mnesia:system_info(is_running) of
        yes -> mnesia:system_info(running_db_nodes);
        _ -> []
    catch
        exit:_ -> []
    end.

-spec table(atom()) -> [{atom(), term()}].
table(Table) ->
    Info = fun(Item) -> mnesia:table_info(Table, Item) end,
    [{size, Info(size)},
     {memory_bytes, Info(memory) * erlang:system_info(wordsize)},
     {storage, Info(storage_type)},
     {copies, Info(ram_copies) ++ Info(disc_copies)},
     {written_to, Info(where_to_write)}].

-spec versions() -> [{atom(), binary() | null}].
versions() ->
    [{otp, list_to_binary(erlang:system_info(otp_release))}, {erts, list_to_binary(erlang:system_info(version))}
     | [{Application, version(Application)} || Application <- [docket, mnesia, mochiweb]]].

-spec version(atom()) -> binary() | null.
version(Application) ->
    _ = application:load(Application),
    case application:get_key(Application, vsn) of
        {ok, Version} -> list_to_binary(Version);
        undefined -> null
    end.

-spec settings(docket_options:options()) -> [{atom(), term()}].
settings(Options) ->
    Address = fun(A) -> list_to_binary(docket_options:address(A)) end,
    [{Name, case Name of
        host -> Address(Value);
        members -> [Address(A) || A <- Value];
        data -> unicode:characters_to_binary(Value);
        _ -> Value
    end} || {Name, Value} <- maps:to_list(maps:remove(part, Options))].

-spec text(string(), [term()]) -> binary().
text(Format, Arguments) -> unicode:characters_to_binary(io_lib:format(Format, Arguments)).
