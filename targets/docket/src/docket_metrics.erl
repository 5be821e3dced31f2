%% How the member is, in Prometheus' text format.
%%
%% With two VMs the figures of both are added up: it is one member. What cannot be had within a second is left out.
-module(docket_metrics).

-export([text/0, sample/0]).

-define(WAIT_MS, 1000).
-define(IPPROTO_TCP, 6).
-define(TCP_INFO, 11).
-define(TCP_INFO_BYTES, 192).

%% What a VM has of its own and can be added up, and what only the register has.
-type sample() :: #{atom() => integer()}.

-spec table() -> [{atom(), gauge | counter, string()}].
table() ->
    [{run_queue, gauge, "processes that are ready to run and do not"},
     {processes, gauge, "Erlang processes"},
     {memory_bytes, gauge, "memory of the Erlang VM"},
     {requests_in_flight, gauge, "requests let in and not answered yet"},
     {requests_refused_total, counter, "requests answered 503 because of admission"},
     {mnesia_transactions_total, counter, "transactions that this member committed"},
     {mnesia_restarts_total, counter, "transactions that Mnesia started again because of a lock"},
     {mnesia_lock_waiters, gauge, "transactions that wait for a lock at this member's lock manager"},
     {replication_backlog, gauge, "messages to Mnesia's transaction and lock managers that are not handled yet"},
     {replication_queued_bytes, gauge, "bytes for other members that have not reached them"},
     {inconsistent_database_total, counter, "times that Mnesia found that two members went on without each other"},
     {mnesia_overloads_total, counter, "times that Mnesia said that it is overloaded"},
     {members, gauge, "members of the cluster that this one is together with, itself included"},
     {cases, gauge, "cases that this member has"}].

%% @doc All of them.
-spec text() -> iolist().
text() ->
    Own = sample(),
    Sample = case docket_core:node() of
        Here when Here =:= node() -> Own;
        _ -> both(Own, docket_core:ask(?MODULE, sample, [], 2 * ?WAIT_MS))
    end,
    [[io_lib:format("# HELP docket_~ts ~ts~n# TYPE docket_~ts ~ts~n", [Name, Help, Name, Type]),
      io_lib:format("docket_~ts ~b~n", [Name, Value])]
     || {Name, Type, Help} <- table(), {ok, Value} <- [maps:find(Name, Sample)]].

-spec both(sample(), sample() | {aborted, term()}) -> sample().
both(Web, {aborted, _}) -> Web;
both(Web, Core) -> maps:merge_with(fun(_, A, B) -> A + B end, Web, Core).

%% @doc Those of this VM.
-spec sample() -> sample().
sample() ->
    Vm = #{run_queue => erlang:statistics(total_run_queue_lengths),
           processes => erlang:system_info(process_count),
           memory_bytes => erlang:memory(total),
           requests_in_flight => docket_tally:get(in_flight),
           requests_refused_total => docket_tally:get(refused)},
    case docket_core:node() =:= node() of
        true -> maps:merge(Vm, register_sample());
        false -> Vm
    end.

-spec register_sample() -> sample().
register_sample() ->
    Known = #{inconsistent_database_total => docket_tally:get(inconsistent),
              mnesia_overloads_total => docket_tally:get(overloaded),
              replication_queued_bytes => lists:sum([queued(Port) || {_, Port} <- erlang:system_info(dist_ctrl)])},
    try
        Known#{mnesia_transactions_total => mnesia:system_info(transaction_commits),
               mnesia_restarts_total => mnesia:system_info(transaction_restarts),
               %% The lock manager is asked: a process that may have much to do.
               mnesia_lock_waiters => length(erpc:call(node(), mnesia, system_info, [lock_queue], ?WAIT_MS)),
               replication_backlog => lists:sum([waiting(Name) || Name <- [mnesia_tm, mnesia_locker]]),
               members => length(mnesia:system_info(running_db_nodes)),
               cases => mnesia:table_info(docket_case, size)}
    catch
        _:_ -> Known
    end.

-spec waiting(atom()) -> non_neg_integer().
waiting(Name) ->
    {message_queue_len, Length} = process_info(whereis(Name), message_queue_len),
    Length.

%% In the driver, in the kernel, and on the way: `struct tcp_info` of Linux has the segments that were sent and are not
%% acknowledged, their size, and the bytes that were not sent.
-spec queued(port() | pid()) -> non_neg_integer().
queued(Port) when is_port(Port) ->
    Driver = case erlang:port_info(Port, queue_size) of
        {queue_size, Bytes} -> Bytes;
        undefined -> 0
    end,
    case inet:getopts(Port, [{raw, ?IPPROTO_TCP, ?TCP_INFO, ?TCP_INFO_BYTES}]) of
        {ok, [{raw, _, _, <<_:16/binary, Segment:32/native, _:4/binary, Unacknowledged:32/native, _:116/binary,
                            Unsent:32/native, _/binary>>}]} ->
            Driver + Unacknowledged * Segment + Unsent;
        _ ->
            Driver
    end;
queued(_) ->
    0.
