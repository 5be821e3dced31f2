%% The answer to `stats': what the service knows about itself, as JSON.
-module(vsns_stats).

-export([json/2]).

%% @doc One flat JSON object; PROTOCOL.md says what each field is.
-spec json(Names :: non_neg_integer(), Spaces :: non_neg_integer()) -> iodata().
json(Names, Spaces) ->
    {Open, CutOff} = vsns_connection_tally:totals(service),
    {UptimeMs, _} = erlang:statistics(wall_clock),
    object([{"names", Names},
            {"spaces", Spaces},
            {"memory_bytes", erlang:memory(total)},
            {"name_server_memory_bytes", name_server_memory()},
            {"processes", erlang:system_info(process_count)},
            {"connections", Open},
            {"connections_cut_off", CutOff},
            {"run_queue", erlang:statistics(run_queue)},
            {"restarts", vsns_table_owner:restarts()},
            {"uptime_ms", UptimeMs}]).

-spec name_server_memory() -> non_neg_integer().
name_server_memory() ->
    %% It may crash between its answer and this line.
    case whereis(vsns_name_server) of
        undefined ->
            0;
        Pid ->
            case process_info(Pid, memory) of
                {memory, Bytes} -> Bytes;
                undefined -> 0
            end
    end.

-spec object([{string(), integer()}]) -> iodata().
object(Fields) ->
    ["{", lists:join(",", [["\"", Name, "\":", integer_to_list(N)] || {Name, N} <- Fields]), "}"].
